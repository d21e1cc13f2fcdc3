from __future__ import annotations

from dataclasses import replace

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


def test_totals_kernels_loops_and_limits_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_counts([count()], 2)
    out = capsys.readouterr().out
    assert "cycles of N1" in out
    assert "fused_0" in out
    assert "fused_2" not in out
    assert "1 more" in out
    # Of a loop: instructions and cycles of each multiply-add.
    assert "2.00" in out
    assert "1.25" in out
    assert "no access misses a cache" in out


@pytest.mark.parametrize("sides", [["fusionx"], ["fusionx", "ort", "mnn", "litert", "ncnn-fp16"]])
def test_lines_fit_into_80_columns_and_nothing_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, sides: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    cycles = {"neoverse-n1": 2e9, "neoverse-n2": 1e9, "cortex-a55": 4e9, "neoverse-v1": 8e8}
    tally = Tally(
        instructions=12_345_678_901,
        multiply_adds=9_876_543_210,
        l1_bytes=123_456_789,
        cycles=cycles,
    )
    name = "fused_nn_contrib_conv2d_NCHWc_add_multiply_sigmoid_multiply_and_more_12"
    loop = replace(LOOP, kernel=name, turns=99_999_999, cycles=dict.fromkeys(cycles, 8.0))
    one = replace(
        count(), total=tally, kernels=(KernelCount(name, "pointwise", tally),), loops=(loop,)
    )
    print_counts([replace(one, side=side) for side in sides], 3)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    assert out.count("12346") == len(sides) + 1
    assert out.count(name) == 2


def columns(out: str) -> list[list[str]]:
    """Return the numbers of the rows of kernels and loops, whose first is a share."""
    rows = [line.split() for line in out.splitlines()]
    return [row for row in rows if row and row[0].endswith("%")]


@pytest.mark.parametrize("largest", [1_206, 49_370, 999_999, 1_234_567, 87_654_321])
def test_columns_stay_apart_and_small_counts_are_exact(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    cores = ("neoverse-n1", "neoverse-n2", "cortex-a55", "neoverse-v1")
    tallies = [
        Tally(
            instructions=largest // parts,
            multiply_adds=largest // parts // 3,
            stack=largest // parts // 7,
            moves=largest // parts // 11,
            cycles=dict.fromkeys(cores, 1.1 * largest / parts),
        )
        for parts in (1, 9, 83, 997)
    ]
    kernels = tuple(KernelCount(f"f{n}", "rows", tally) for n, tally in enumerate(tallies))
    print_counts([replace(count(), total=tallies[0], kernels=kernels, loops=())], len(kernels))
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    rows = columns(out)
    assert {len(row) for row in rows} == {10}
    if largest < 1_000_000:
        assert [int(row[1]) for row in rows] == [tally.instructions for tally in tallies]
        assert "million" not in out
    else:
        for row, tally in zip(rows, tallies, strict=True):
            assert float(row[1]) * 1e6 == pytest.approx(tally.instructions, rel=5e-4, abs=50)
        assert "million" in out


def test_loops_are_shown_as_code(capsys: pytest.CaptureFixture[str]) -> None:
    print_assembly(count(), 5)
    out = capsys.readouterr().out
    assert "loop 1, fused_conv: 750 turns" in out
    assert "  0x4: b.ne 0x0" in out
