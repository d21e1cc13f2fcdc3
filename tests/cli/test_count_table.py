from __future__ import annotations

import pytest

from tvm_fusionx.cli.count_table import print_assembly, print_counts
from tvm_fusionx.counting.count import Count, HotLoop, KernelCount
from tvm_fusionx.counting.tally import Tally

TALLY = Tally(
    instructions=2_000_000, multiply_adds=1_000_000, stack=30_000, cycles={"neoverse-n1": 1.5e6}
)
LOOP = HotLoop(
    kernel="fused_conv",
    instructions=1_500_000,
    turns=750,
    length=20,
    multiply_adds=10,
    loads=4,
    stores=0,
    stack=3,
    moves=1,
    cycles={"neoverse-n1": 8.0},
    code=("0x0: fmla v0.4s, v1.4s, v2.4s", "0x4: b.ne 0x0"),
)


def count(kernels: int = 3) -> Count:
    return Count(
        side="fusionx",
        version="1",
        model="m",
        core="cortex-a76",
        emulated="cortex-a76",
        total=TALLY,
        kernels=tuple(KernelCount(f"fused_{n}", "pointwise", TALLY) for n in range(kernels)),
        loops=(LOOP,),
    )


def test_totals_kernels_loops_and_limits_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    print_counts([count()], 2)
    out = capsys.readouterr().out
    assert "N1 (A76)" in out
    assert "fused_0" in out
    assert "fused_2" not in out
    assert "1 more" in out
    # Of a loop: instructions and cycles of each multiply-add.
    assert "2.00" in out
    assert "1.25" in out
    assert "no access misses a cache" in out


def test_loops_are_shown_as_code(capsys: pytest.CaptureFixture[str]) -> None:
    print_assembly(count(), 5)
    out = capsys.readouterr().out
    assert "loop 1, fused_conv: 750 turns" in out
    assert "  0x4: b.ne 0x0" in out
