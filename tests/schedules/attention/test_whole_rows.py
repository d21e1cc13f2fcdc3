"""Attention by norms in one kernel: right in every shape it serves, else refused with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relay

from tests.relay_modules import REASSOCIATING, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import AVX2, AVX512, assert_scheduled, describe, unscheduled
from tests.schedules.matrix_blocks import attention_scores, norm_attention
from tvm_fusionx.schedules.attention.whole_rows import (
    ATTENTION,
    most_columns,
    row_block,
    tile_height,
    tile_heights,
)
from tvm_fusionx.tir.fresh_schedule import fresh_schedule


def _plain_values(columns: int, queries: relay.Expr | None = None) -> relay.Expr:
    scores = relay.nn.batch_matmul(queries or var("q", 2, 8, 4), var("k", 2, columns, 4))
    weights = scores / relay.sum(relay.exp(scores), axis=-1, keepdims=True)
    return relay.nn.batch_matmul(weights, var("v", 2, columns, 16), transpose_b=False)


BLOCKS = {
    "heads": norm_attention(3, 16, 16, 8, 8),
    "more keys than queries": norm_attention(2, 8, 24, 4, 16),
    "keys that a tile does not divide": norm_attention(2, 12, 37, 5, 16),
    "values that a tile does not divide": norm_attention(2, 8, 16, 8, 21),
    "one head": norm_attention(1, 16, 16, 8, 16),
    "values in order": _plain_values(16),
    "work before the scores": _plain_values(16, var("q", 2, 8, 4) + var("bias", 4)),
    "work after the values": relay.nn.relu(norm_attention(2, 8, 16, 4, 8)) + var("r", 8, 16),
}


@pytest.mark.parametrize("case", few_fast(BLOCKS, 1))
def test_attention(case: str) -> None:
    assert_scheduled(BLOCKS[case], "attention", REASSOCIATING)


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(
    heads=st.integers(1, 4),
    tiles=st.integers(1, 5),
    columns=st.integers(2, 40),
    depth=st.integers(2, 20),
    width=st.integers(2, 40),
)
def test_attention_of_any_shape(
    heads: int, tiles: int, columns: int, depth: int, width: int
) -> None:
    body = norm_attention(heads, 4 * tiles, columns, depth, width)
    assert_scheduled(body, "attention", REASSOCIATING)


REFUSED = {
    "two dot products": attention_scores(2, 8, 8, 4),
    "do not follow each other": relay.nn.batch_matmul(var("a", 2, 8, 4), var("b", 2, 8, 4))
    + relay.nn.batch_matmul(var("c", 2, 8, 4), var("d", 2, 8, 4)),
    "7 rows are no whole number of tiles": norm_attention(2, 7, 8, 4, 4),
    "several results": relay.Tuple([BLOCKS["heads"], relay.exp(BLOCKS["heads"])]),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusal_has_a_reason(reason: str) -> None:
    assert reason in (ATTENTION.why_not(describe(REFUSED[reason])) or "")


def test_scores_of_a_few_rows_stay_in_the_first_cache() -> None:
    assert row_block(128, 128, 8, AVX512) * 128 * 4 <= AVX512.l1_bytes
    assert row_block(2048, 2048, 8, AVX512) == 8
    assert 24 % row_block(24, 16, 8, AVX512) == 0


def test_tiles_divide_the_rows() -> None:
    assert tile_height(128, AVX512) == 8
    assert tile_height(13, AVX512) is None
    assert all(24 % height == 0 for height in [tile_height(24, AVX2)] if height)
    assert most_columns(AVX512) * tile_heights(AVX512)[0] * 4 <= AVX512.l2_bytes


@pytest.mark.slow
def test_no_score_leaves_the_block_of_rows() -> None:
    info = describe(norm_attention(2, 16, 16, 8, 8), AVX512)
    knobs = ATTENTION.knobs(info, info.cpu)
    assert knobs["row_block"].default in knobs["row_block"].choices
    func = ATTENTION.apply(
        fresh_schedule(unscheduled(norm_attention(2, 16, 16, 8, 8))), info, {"row_block": 8}
    )
    assert not hasattr(func.body.block.body, "seq"), "one loop holds both products"
