"""Dense windows of halves: which are summed up in halves; numbers are in parts/test_half_sums."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relay

from tests.schedules.blocked_blocks import dense, unscheduled
from tests.schedules.matching import knobs_of, why_not
from tests.schedules.sums_in_halves import summed_in_halves
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.windows.dense_in_halves import CONV2D_IN_HALVES
from tvm_fusionx.tir.block import BlockInfo, describe_block
from tvm_fusionx.tir.half_terms import NOT_IN_HALVES, Mark, told, without_marks
from tvm_fusionx.tir.stored_types import as_single

A76 = resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1")
WIDE = Cpu(8, 32, 1, multiplies_by_lane=True, compares_halves=True)
ONE = (1, 1, 1, 1)


def _info(body: relay.Expr, terms: int = 32) -> BlockInfo:
    """Return a block of halves as a template sees it."""
    func, mark = without_marks(unscheduled(summed_in_halves(body, Mark(terms)), A76))
    single = as_single(func)
    assert single is not None
    return describe_block(told(single.func, mark, single.stored), WIDE)


@pytest.mark.parametrize(
    "body",
    [
        dense(32, (9, 10), 24, (3, 3), padding=ONE, post=relay.nn.relu),
        dense(32, (9, 11), 24, (3, 3), padding=ONE, strides=(2, 2)),
        dense(32, (9, 11), 24, (1, 1), strides=(2, 2)),
    ],
    ids=["stride 1", "stride 2", "every other pixel"],
)
def test_windows_of_all_channels_are_served(body: relay.Expr) -> None:
    knobs = knobs_of(CONV2D_IN_HALVES, _info(body))
    tile = knobs["tile_chunks"].default * knobs["tile_columns"].default
    # The sums, what they are multiplied by, and room for loads.
    assert 1 < tile < WIDE.registers


@pytest.mark.parametrize(
    ("body", "terms", "because"),
    [
        (dense(16, (9, 10), 8, (3, 3), padding=ONE), 4, NOT_IN_HALVES),
        (dense(16, (9, 20), 8, (3, 8)), 32, "its window has more than 7 columns"),
        (dense(16, (9, 10), 8, (3, 3), blocks=(4, 8)), 32, "its chunks are no vectors of halves"),
        (dense(16, (9, 10), 16, (3, 3), groups=2), 32, "its channels are in groups"),
    ],
    ids=["few terms", "wide", "chunks of four", "groups"],
)
def test_others_are_not(body: relay.Expr, terms: int, because: str) -> None:
    assert why_not(CONV2D_IN_HALVES, _info(body, terms)) == because


def test_a_block_without_a_mark_is_not_summed_in_halves() -> None:
    plain: Any = unscheduled(dense(16, (9, 10), 8, (3, 3), padding=ONE), A76)
    assert why_not(CONV2D_IN_HALVES, describe_block(plain, WIDE)) == NOT_IN_HALVES
