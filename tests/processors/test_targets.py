"""What a target string is understood as."""

from __future__ import annotations

from typing import Any

import pytest
import tvm

from tvm_fusionx.errors import TargetError
from tvm_fusionx.processors.targets import is_cpu, resolve_target, target_key, with_own_definitions


@pytest.mark.parametrize("native", ["llvm -mcpu=native", tvm.target.Target("llvm -mcpu=native")])
def test_native_is_this_machine(native: object) -> None:
    resolved = resolve_target(native)
    assert "native" not in str(resolved)
    assert is_cpu(resolved)


def test_unknown_target() -> None:
    with pytest.raises(TargetError, match="abacus"):
        resolve_target("abacus -beads=10")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("llvm -mcpu=pentium9", "Near it are pentium, pentium4"),
        ("llvm -mcpu=znver44", "znver4"),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a760", "for aarch64-linux-gnu.* cortex-a76"),
        ("llvm -mtriple=toaster-linux-gnu", "found 'toaster'"),
        ("cuda", "kinds with templates: llvm, opencl; found 'cuda'"),
        ("c", "kinds with templates"),
        ("llvm -mcpu=cortex-a76", "It is one for -mtriple=aarch64-linux-gnu"),
    ],
)
def test_what_no_code_can_be_made_for_is_said_at_once(
    text: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for target in (text, tvm.target.Target(text)):
        capfd.readouterr()
        with pytest.raises(TargetError, match=said):
            resolve_target(target)
        assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "text",
    [
        "llvm",
        "llvm -mtriple=i686-linux-gnu -mcpu=pentium4",
        "llvm -mtriple=armv7a-linux-gnueabihf -mcpu=cortex-a9",
        "llvm -mtriple=arm64-linux-android -mcpu=cortex-a55",
        "opencl -device=adreno",
        "llvm -mcpu=znver4 -mattr=+avx512f,-sse4a",
        "llvm -mtriple=aarch64-linux-gnu -mattr=+v8.2a,+dotprod,+reserve-x18",
    ],
)
def test_what_code_can_be_made_for_is_taken(text: str) -> None:
    assert resolve_target(text).kind.name == text.split()[0]


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ("+avx512ff", "target -mattr=.avx512ff.* Near it are avx512f"),
        ("+avx2,-nonsense", "target -mattr=-nonsense"),
        ("avx2", r"expected \+ or - before each feature"),
    ],
)
def test_a_feature_that_llvm_would_ignore_is_refused(features: str, said: str) -> None:
    target = f"llvm -mcpu=znver4 -mattr={features}"
    for each in (target, tvm.target.Target(target)):
        with pytest.raises(TargetError, match=said):
            resolve_target(each)


@pytest.mark.parametrize("target", [None, 5, ["llvm"]])
def test_what_is_no_target_at_all(target: Any) -> None:
    with pytest.raises(TargetError, match=f"found {type(target).__name__}"):
        resolve_target(target)


def test_records_belong_to_a_cpu_not_to_a_core_count() -> None:
    one, two = (tvm.target.Target(f"llvm -mcpu=znver3 -num-cores={n}") for n in (1, 2))
    assert target_key(one) == target_key(two) == "llvm znver3"
    assert target_key(one) != target_key(tvm.target.Target("llvm -mcpu=znver4"))


@pytest.mark.parametrize("options", ["", " -device=arm_cpu", " -keys=cpu", " -keys=arm_cpu"])
def test_operators_are_defined_on_arm_as_on_x86(options: str) -> None:
    target = resolve_target(f"llvm{options} -mtriple=aarch64-linux-android -num-cores=4")
    assert target.keys[0] == "cpu"
    assert "arm_cpu" in target.keys
    assert target.attrs["num-cores"] == 4
    # What is printed, and what is resolved already, is the same target.
    assert str(resolve_target(str(target))) == str(resolve_target(target)) == str(target)


def test_tvm_may_define_them_as_it_does() -> None:
    text = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon -num-cores=2"
    given_back = with_own_definitions(resolve_target(text))
    assert str(given_back) == str(tvm.target.Target(text))
    assert str(with_own_definitions(given_back)) == str(given_back)
    x86 = resolve_target("llvm -mcpu=znver3")
    assert with_own_definitions(x86) is x86


def test_the_host_of_a_target_stays() -> None:
    host = tvm.target.Target("llvm -mcpu=cortex-a72 -mtriple=aarch64-linux-gnu")
    target = tvm.target.Target("llvm -mtriple=aarch64-linux-gnu", host=host)
    assert str(resolve_target(target).host) == str(host)
