"""What a target offers, by its own description and not the host's."""

from __future__ import annotations

import json

import pytest
import tvm
from tvm.target import codegen

from tvm_fusionx.errors import TargetError
from tvm_fusionx.schedules import host_cpu
from tvm_fusionx.schedules.cpu import (
    describe_cpu,
    is_cpu,
    resolve_target,
    target_key,
    with_own_definitions,
)
from tvm_fusionx.schedules.host_cpu import cache_kibibytes

CPUS = {
    "llvm -mcpu=core-avx2 -num-cores=4": (8, 16, 4),
    "llvm -mcpu=skylake-avx512 -num-cores=1": (16, 32, 1),
    "llvm -mcpu=x86-64 -num-cores=1": (4, 16, 1),
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=8": (4, 32, 8),
    "llvm -mtriple=aarch64-linux-gnu -mattr=+neon -num-cores=2": (4, 32, 2),
}


@pytest.mark.parametrize("target", CPUS)
def test_vectors_and_registers(target: str) -> None:
    cpu = describe_cpu(tvm.target.Target(target))
    assert (cpu.lanes, cpu.registers, cpu.cores) == CPUS[target]


@pytest.mark.parametrize(
    ("target", "kibibytes"),
    [
        ("llvm -mcpu=skylake", (32, 256)),
        ("llvm -mcpu=znver4", (32, 1024)),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a55", (32, 128)),
        ("llvm -mcpu=x86-64", (32, 1024)),
    ],
)
def test_caches(target: str, kibibytes: tuple[int, int]) -> None:
    cpu = describe_cpu(tvm.target.Target(target))
    # Of the second level, a kernel may fill half.
    l1, l2 = kibibytes
    assert (cpu.l1_bytes, cpu.l2_bytes) == (1024 * l1, 512 * l2)


@pytest.mark.parametrize(
    ("target", "count"),
    [
        ("llvm -mcpu=znver4", 1),
        # Halves of such vectors begin twice.
        ("llvm -mcpu=znver4 -mattr=-avx512f", 2),
        ("llvm -mcpu=rocketlake", 1),
        ("llvm -mcpu=sapphirerapids", 2),
        ("llvm -mcpu=znver3", 2),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a78", 2),
    ],
)
def test_multiply_adds_that_begin_in_a_cycle(target: str, count: int) -> None:
    assert describe_cpu(tvm.target.Target(target)).multiply_adds == count


@pytest.mark.parametrize(
    ("name", "is_slow"),
    [("sapphirerapids", True), ("skylake-avx512", True), ("skylake", False), ("znver4", False)],
)
def test_cores_of_a_mesh_exchange_slowly(name: str, is_slow: bool) -> None:
    assert describe_cpu(tvm.target.Target(f"llvm -mcpu={name}")).exchanges_slowly == is_slow


def test_every_fact_is_of_a_known_cpu() -> None:
    facts = json.loads(host_cpu.CORES.read_text(encoding="utf-8"))
    assert {*facts["one_multiply_add"], *facts["slow_exchange"]} <= facts["caches"].keys()


def test_llvm_knows_every_cpu_of_the_table() -> None:
    triples = ("x86_64-linux-gnu", "aarch64-linux-gnu")
    known = {
        str(name)
        for triple in triples
        for name in codegen.llvm_get_cpu_archlist(tvm.target.Target(f"llvm -mtriple={triple}"))
    }
    assert cache_kibibytes().keys() <= known


@pytest.mark.parametrize("native", ["llvm -mcpu=native", tvm.target.Target("llvm -mcpu=native")])
def test_native_is_this_machine(native: object) -> None:
    resolved = resolve_target(native)
    assert "native" not in str(resolved)
    assert is_cpu(resolved)


def test_unknown_target() -> None:
    with pytest.raises(TargetError, match="abacus"):
        resolve_target("abacus -beads=10")


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
