"""Results that a block reads again: lent to the schedule, stored once, right in every shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relay

from tests.relay_modules import REASSOCIATING, TARGET, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import assert_scheduled, describe
from tests.schedules.matching import emitted
from tests.schedules.matrix_blocks import layer_norm, packed_dense
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.parts.nest import info_of
from tvm_fusionx.schedules.rows.template import ROWS
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.inline import inline_spatial
from tvm_fusionx.tir.lent_outputs import is_lent, lend_outputs, return_outputs


def _sum_and_norm(rows: int, columns: int, total: relay.Expr) -> relay.Expr:
    kept = total + var("residual", rows, columns)
    return relay.Tuple([kept, layer_norm(kept, columns)])


def _lent_of(func: Any) -> list[str]:
    return [buffer.name for buffer in func.body.block.alloc_buffers if is_lent(buffer)]


def test_a_result_that_is_read_is_lent_and_returned() -> None:
    info = describe(_sum_and_norm(4, 16, var("x", 4, 16)))
    sch = fresh_schedule(info.func)
    inlined = inline_spatial(sch, info)
    lent = lend_outputs(sch.mod["main"], inlined)
    assert len(_lent_of(lent)) == 1
    assert len(info_of(fresh_schedule(lent), inlined).outputs) == len(inlined.outputs) - 1
    returned = return_outputs(lent)
    assert not _lent_of(returned)
    assert info_of(fresh_schedule(returned), inlined).outputs == inlined.outputs


def test_a_result_that_nobody_reads_stays() -> None:
    info = describe(relay.exp(var("x", 4, 16)))
    assert lend_outputs(info.func, info).same_as(info.func)
    assert return_outputs(info.func).same_as(info.func)


def test_a_sum_is_stored_once_in_the_nest_of_its_norm() -> None:
    info = describe(_sum_and_norm(32, 64, var("x", 32, 64)))
    func = emitted(ROWS, info, {})
    nests = func.body.block.body
    assert not hasattr(nests, "seq"), "one nest holds every stage"
    assert "_copy" not in func.script()


SIZES = st.integers(1, 40)


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(rows=SIZES, columns=SIZES, depth=st.integers(1, 20))
def test_product_with_its_sum_and_norm(rows: int, columns: int, depth: int) -> None:
    """Widened tiles are copied out of their buffer, whole ones are written in place."""
    data, weights = var("x", rows, depth), var("w", columns, depth)
    body = _sum_and_norm(rows, columns, relay.nn.dense(data, weights))
    assert_any_template(body)


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(rows=SIZES, panels=st.integers(1, 4), depth=st.integers(2, 20))
def test_packed_product_with_its_sum_and_norm(rows: int, panels: int, depth: int) -> None:
    body = _sum_and_norm(rows, 16 * panels, packed_dense(rows, 16 * panels, depth))
    assert_scheduled(body, "dot", REASSOCIATING)


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(rows=SIZES, columns=SIZES)
def test_sum_and_norm(rows: int, columns: int) -> None:
    assert_scheduled(_sum_and_norm(rows, columns, var("x", rows, columns)), "rows", REASSOCIATING)


CASES = {
    "a product and what is computed from it": lambda: _with(packed_dense(12, 32, 8), relay.nn.relu),
    "a product and its softmax": lambda: _with(packed_dense(13, 32, 8), relay.nn.softmax),
    "elements": lambda: _with(relay.exp(var("x", 7, 33)), relay.tanh),
    "rows and what is computed from them": lambda: _with(
        relay.nn.softmax(var("x", 7, 33)), relay.nn.relu
    ),
    "a product in heads and its softmax": lambda: _with(
        relay.nn.batch_matmul(var("q", 3, 9, 8), var("k", 3, 11, 8)), relay.nn.softmax
    ),
}


def _with(first: relay.Expr, second: Any) -> relay.Expr:
    return relay.Tuple([first, second(first)])


@pytest.mark.parametrize("case", few_fast(CASES, 1))
def test_two_results(case: str) -> None:
    assert_any_template(CASES[case]())


def assert_any_template(body: relay.Expr) -> None:
    """Check the numbers, whichever template serves; none may fail on the way."""
    info = describe(body)
    served = schedule(info.func, resolve_target(TARGET))
    assert_scheduled(body, served.template, REASSOCIATING)
