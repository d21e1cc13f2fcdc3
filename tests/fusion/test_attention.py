"""Attention as one block: planned where a target serves it, with a reason where not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relay

from tests.fusion.planned import decisions, planned
from tests.relay_modules import var
from tests.schedules.matrix_blocks import attention
from tvm_fusionx.fusion import Limits, PlannerOptions, Reason
from tvm_fusionx.fusion.attention import AttentionLimits

OPTIONS = PlannerOptions(Limits(attention=AttentionLimits(4)))
HEADS, ROWS, COLUMNS, DEPTH = 4, 64, 128, 32


def _scores(columns: int = COLUMNS, rows: int = ROWS) -> relay.Expr:
    return relay.nn.batch_matmul(var("q", HEADS, rows, DEPTH), var("k", HEADS, columns, DEPTH))


def _times_values(weights: relay.Expr, columns: int = COLUMNS) -> relay.Expr:
    return relay.nn.batch_matmul(weights, var("v", HEADS, DEPTH, columns))


def _kernels(expr: relay.Expr, options: PlannerOptions = OPTIONS) -> int:
    return planned(expr, options=options).kernels


def test_attention_is_one_block_where_the_target_serves_it() -> None:
    expr = attention(HEADS, ROWS, COLUMNS, DEPTH, DEPTH)
    assert _kernels(expr) == 1
    assert _kernels(expr, PlannerOptions()) == 2


def test_a_mask_and_a_scale_belong_to_it() -> None:
    scores = _scores() * relay.const(0.5) + var("mask", 1, ROWS, COLUMNS)
    assert _kernels(_times_values(relay.nn.softmax(scores))) == 1


def _attention_of(dtype: str) -> relay.Expr:
    q, k, v = (
        var(name, HEADS, *shape, dtype=dtype)
        for name, shape in (
            ("q", (ROWS, DEPTH)),
            ("k", (COLUMNS, DEPTH)),
            ("v", (DEPTH, COLUMNS)),
        )
    )
    scores = relay.nn.batch_matmul(q, k, out_dtype=dtype)
    return relay.nn.batch_matmul(relay.nn.softmax(scores), v, out_dtype=dtype)


def test_attention_of_halves_is_one_block() -> None:
    """Its sums are float32, as every block's are."""
    assert _kernels(_attention_of("float16")) == 1


def _of_computed_values() -> relay.Expr:
    weights = relay.nn.softmax(_scores())
    return relay.nn.batch_matmul(weights, relay.exp(var("v", HEADS, DEPTH, COLUMNS)))


def _scores_kept() -> relay.Expr:
    scores = _scores()
    return relay.Tuple([_times_values(relay.nn.softmax(scores)), relay.exp(scores)])


def _normed(scores: relay.Expr) -> relay.Expr:
    return scores - relay.mean(scores, axis=-1, keepdims=True)


def _scaled_weights(columns: int) -> relay.Expr:
    weights = relay.nn.softmax(_scores(columns)) * relay.const(2.0)
    return _times_values(weights, columns)


@pytest.mark.parametrize(("rows", "columns"), [(63, 128), (64, 512), (197, 197), (7, 4096)])
def test_a_softmax_of_any_number_of_rows_and_scores_is_one_block(rows: int, columns: int) -> None:
    scores = _scores(columns, rows) * relay.const(0.5) + var("mask", 1, rows, columns)
    assert _kernels(_times_values(relay.nn.softmax(scores), columns)) == 1


SPLIT: dict[str, Callable[[], relay.Expr]] = {
    "3 rows are less than a tile": lambda: _times_values(relay.nn.softmax(_scores(rows=3))),
    "no softmax alone": lambda: _times_values(_normed(_scores())),
    "softmax alone weighs": lambda: _scaled_weights(COLUMNS),
    "their sums are not float32": lambda: _attention_of("float64"),
    "no reductions": lambda: _times_values(relay.nn.relu(_scores())),
}


@pytest.mark.parametrize("reason", SPLIT)
def test_what_is_not_attention_is_refused_with_its_reason(reason: str) -> None:
    plan = planned(SPLIT[reason](), options=OPTIONS)
    details = [edge.detail for edge in plan.edges if edge.reason is Reason.SECOND_CONTRACTION]
    assert any(reason in detail for detail in details), details


def test_values_are_not_computed_again_for_every_row() -> None:
    plan = planned(_of_computed_values(), options=OPTIONS)
    assert decisions(plan)["exp", "nn.batch_matmul"].reason is Reason.RECOMPUTED
    assert plan.kernels == 2


def test_cheap_work_is_done_where_operands_are_copied() -> None:
    queries = (var("q", HEADS, ROWS, DEPTH) + var("bias", DEPTH)) * relay.const(0.5)
    scores = relay.nn.batch_matmul(queries, var("k", HEADS, COLUMNS, DEPTH))
    assert _kernels(_times_values(relay.nn.softmax(scores))) == 1


def test_scores_that_are_read_elsewhere_are_not_kept_in_the_cache() -> None:
    assert planned(_scores_kept(), options=OPTIONS).kernels > 1
