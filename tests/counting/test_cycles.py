from __future__ import annotations

import pytest

from tvm_fusionx.counting.cycles import CYCLE_CORES, cycles_of
from tvm_fusionx.errors import MissingDependencyError

SUMS = [f"fmla v{number}.4s, v30.4s, v31.4s" for number in range(16)]


def test_neoverse_n1_begins_two_multiply_adds_a_cycle_and_v1_four() -> None:
    pieces = [SUMS, [], ["b.ne 0x10"], [*SUMS, "subs x0, x0, #1", "b.ne 0x10"]]
    n1 = cycles_of(pieces, "neoverse-n1")
    assert n1[0] == pytest.approx(8, rel=0.05)
    assert n1[1:3] == [0.0, 0.0]
    # The branch counts for nothing, and the subtraction fits beside.
    assert n1[3] == pytest.approx(8, rel=0.1)
    assert cycles_of([SUMS], "neoverse-v1")[0] == pytest.approx(4, rel=0.1)


def test_one_sum_waits_for_itself() -> None:
    (cycles,) = cycles_of([["fmla v0.4s, v30.4s, v31.4s"] * 8], "cortex-a55")
    assert cycles == pytest.approx(32, rel=0.1)


@pytest.mark.parametrize("core", CYCLE_CORES)
def test_every_core_is_modelled(core: str) -> None:
    assert cycles_of([["ldr q0, [x0]", "fadd v0.4s, v0.4s, v0.4s"]], core)[0] > 0


def test_nothing_takes_nothing() -> None:
    assert cycles_of([], "neoverse-n1") == []


def test_an_unknown_core_is_told() -> None:
    with pytest.raises(MissingDependencyError, match="llvm-mca"):
        cycles_of([SUMS], "nessie")
