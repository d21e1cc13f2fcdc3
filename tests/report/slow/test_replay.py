from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import const, var
from tests.report.slow.blocks import block_call
from tests.report.slow.reports import PEAK, tiny_build, tiny_profile
from tests.tiny_models import TARGET
from tvm_fusionx.errors import ReportFileError
from tvm_fusionx.report.slow.block_json import block_json
from tvm_fusionx.report.slow.read_block import read_block
from tvm_fusionx.report.slow.replay import operand_arrays, replay
from tvm_fusionx.report.slow.slow_report import SlowBlock, SlowReport, slow_report
from tvm_fusionx.schedules import resolve_target


@pytest.fixture(scope="module")
def report() -> SlowReport:
    build = tiny_build()
    return slow_report(build, tiny_profile(build), resolve_target(TARGET))


def test_the_same_kernel_is_met_here(report: SlowReport) -> None:
    for block in report.blocks:
        here = replay(block, TARGET, repeat=1, peak=PEAK)
        assert here.template == block.template
        assert here.refusals == block.refusals
        assert here.limit_seconds == pytest.approx(block.limit_seconds)
        assert here.seconds > 0
        assert here.part_of_limit == pytest.approx(block.limit_seconds / here.seconds)


def _slow(body: Any, *arguments: Any) -> SlowBlock:
    return SlowBlock(block_json(block_call(body, list(arguments))), 1, 1.0, 0.1, "rows")


def test_a_block_that_tvm_cannot_build_is_an_error_of_the_report() -> None:
    slow = _slow(relay.nn.relu(var("a", 4)), var("x", 4))
    slow.block["calls"][0]["op"] = "nn.no_operator"
    with pytest.raises(ReportFileError, match=r"report r, block 3, call 0, op"):
        replay(slow, TARGET, where="report r, block 3", peak=PEAK)


def test_numbers_are_drawn_without_zeros_and_indices_among_the_valid_ones() -> None:
    rows, places = var("a", 5, 3), var("b", 2, 50, dtype="int64")
    factor = var("c", 2, 50, 3)
    taken = relay.take(rows, places, axis=0) * factor
    call = block_call(taken, [const(5, 3), var("x", 2, 50, dtype="int64"), var("y", 2, 50, 3)])
    block = read_block(block_json(call), "a block")
    one, other = (operand_arrays(block, seed) for seed in (0, 1))
    assert [array.dtype.name for array in one] == ["float32", "int64", "float32"]
    assert [array.shape for array in one] == [(5, 3), (2, 50), (2, 50, 3)]
    assert one[0].min() >= 0.5
    assert one[0].max() <= 1.5
    assert set(one[1].reshape(-1)) == set(range(5))
    assert not np.array_equal(one[0], other[0])
    assert all(map(np.array_equal, one, operand_arrays(block, 0)))


def test_whole_numbers_that_are_no_indices_are_zero_and_kept_ones_are_kept() -> None:
    sums, places = var("a", 4, dtype="int32"), var("b", 2, dtype="int32")
    body = relay.take(sums + var("c", 4, dtype="int32"), places, axis=0)
    kept = relay.const(np.array([3, 1]), "int32")
    call = block_call(body, [var("x", 4, dtype="int32"), kept, var("y", 4, dtype="int32")])
    arrays = operand_arrays(read_block(block_json(call), "a block"))
    assert [array.tolist() for array in arrays] == [[0] * 4, [3, 1], [0] * 4]
