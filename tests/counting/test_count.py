from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.counting.counted_model import CORE, counted_library
from tvm_fusionx.counting.count import LIMITS, SCHEMA, count_functions, count_library, save_counts
from tvm_fusionx.counting.executed import Function, Step
from tvm_fusionx.errors import TargetError

FMLA, BACK, RET = 0x4E22CC20, 0x54FFFFE1, 0xD65F03C0
ROWS, FEATURES, HIDDEN = 4, 16, 8


def loop_function(name: str, turns: int) -> Function:
    steps = (Step(0, FMLA, turns), Step(4, BACK, turns), Step(8, RET, 1))
    return Function(name, "mod.so", steps, (0, 0, 0, 0))


def test_functions_are_summed_by_kernel_and_their_loops_ranked() -> None:
    functions = [
        loop_function("tvmgen_default_fused_a_compute_", 100),
        loop_function("tvmgen_default_fused_a", 10),
        loop_function("tvmgen_default_fused_b_compute_", 300),
        loop_function("memcpy", 1),
    ]
    count = count_functions(
        functions,
        side="fusionx",
        version="1",
        model="m",
        core=CORE,
        templates={"fused_a": "pointwise", "fused_b": "rows"},
    )
    assert [(each.name, each.template) for each in count.kernels] == [
        ("fused_b", "rows"),
        ("fused_a", "pointwise"),
        ("mod.so", ""),
    ]
    assert [each.tally.multiply_adds for each in count.kernels] == [300, 110, 1]
    assert count.total.instructions == 2 * 411 + 4
    hottest = count.loops[0]
    assert (hottest.kernel, hottest.turns, hottest.length) == ("fused_b", 300, 2)
    assert hottest.code[1].endswith("b.ne 0x0")
    assert sum(each.tally.cycles["neoverse-n1"] for each in count.kernels) == pytest.approx(
        count.total.cycles["neoverse-n1"]
    )


def test_an_inference_is_counted_twice_alike(tmp_path: Path) -> None:
    first = count_library(counted_library(), CORE, cores=("neoverse-n1",))
    second = count_library(counted_library(), CORE, cores=("neoverse-n1",), with_caches=False)
    assert first.total.instructions == second.total.instructions
    assert first.total.products >= ROWS * FEATURES * HIDDEN
    assert first.total.l1_bytes >= 0
    assert second.total.l1_bytes == 0
    assert {"libtvm_runtime.so"} <= {kernel.name for kernel in first.kernels}
    path = tmp_path / "counts.json"
    save_counts([first, second], path, note="both")
    written = json.loads(path.read_text())
    assert written["schema"] == SCHEMA
    assert written["note"] == "both"
    assert written["counts"][0]["total"]["instructions"] == first.total.instructions
    assert written["counts"][0]["limits"] == LIMITS


def test_an_unknown_core_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="znver4"):
        count_library(tmp_path / "missing.tar", "znver4")
