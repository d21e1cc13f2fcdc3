"""One name stands for machines with the same vectors."""

from __future__ import annotations

import pytest
import tvm
from tvm.target import codegen

from tests.stand_in import NATIVE, STAND_INS, stand_in, target_here
from tvm_fusionx.processors.host_cpu import flag_names
from tvm_fusionx.schedules import describe_cpu, resolve_target


def flags_of(cpu: str) -> frozenset[str]:
    """Return what Linux tells of a CPU whose features are all lent."""
    features = codegen.llvm_get_cpu_features(tvm.target.Target(f"llvm -mcpu={cpu}"))
    held = {str(each) for each in features}
    return frozenset(flag for name, flag in flag_names()["x86_64"].items() if name in held)


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        ("sapphirerapids", "icelake-server"),
        ("znver4", "icelake-server"),
        ("icelake-server", "icelake-server"),
        ("cascadelake", "skylake-avx512"),
        ("znver3", "haswell"),
        ("alderlake", "haswell"),
        ("nehalem", NATIVE),
    ],
)
def test_vectors_choose_the_name(cpu: str, expected: str) -> None:
    assert stand_in("x86_64", flags_of(cpu)) == expected


def test_where_no_flags_are_told_the_machine_stands_for_itself() -> None:
    assert stand_in("x86_64", frozenset()) == NATIVE
    assert stand_in("riscv64", flags_of("znver4")) == NATIVE


def test_from_wide_vectors_to_narrow_ones() -> None:
    lanes = [describe_cpu(resolve_target(f"llvm -mcpu={cpu}")).lanes for cpu in STAND_INS]
    assert lanes == sorted(lanes, reverse=True)


def test_this_machine_has_a_target() -> None:
    assert describe_cpu(resolve_target(target_here())).lanes >= 4
