"""What is found of a softmax between two products."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relay, tir

from tests.relay_modules import var
from tests.schedules.blocked_blocks import describe
from tests.schedules.matrix_blocks import attention
from tvm_fusionx.schedules.attention.structure import Softmax, find_softmax, inline_around_softmax
from tvm_fusionx.schedules.template import UnschedulableError
from tvm_fusionx.tir.fresh_schedule import fresh_schedule


def _found(body: relay.Expr) -> Softmax:
    info = describe(body)
    return find_softmax(inline_around_softmax(fresh_schedule(info.func), info))


def _read(expr: Any) -> list[str]:
    found = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad):
            found.append(node.buffer.name)

    tir.stmt_functor.post_order_visit(expr, visit)
    return found


def test_sizes_and_operands() -> None:
    softmax = _found(attention(2, 7, 9, 4, 5))
    sizes = (softmax.heads, softmax.rows, softmax.columns, softmax.depth, softmax.width)
    assert sizes == (2, 7, 9, 4, 5)
    at = [tir.Var(name, "int64") for name in "hpd"]
    operands = [_read(each(*at)) for each in (softmax.query, softmax.key, softmax.value)]
    assert [len(each) for each in operands] == [1, 1, 1]
    assert len({each[0] for each in operands}) == len(operands)


def test_the_score_takes_the_place_of_the_product() -> None:
    softmax = _found(attention(2, 7, 9, 4, 5))
    places = [tir.Var(name, "int32") for name in "hrk"]
    finished = softmax.finish(*places, tir.const(3.0, "float32"))
    assert len(_read(finished)) == 1, "only the mask is read"
    assert set(tir.analysis.undefined_vars(finished)) & set(places) == {places[2]}


def _other_rows() -> relay.Expr:
    scores = relay.nn.batch_matmul(var("q", 2, 8, 4), var("k", 2, 8, 4))
    weights = relay.nn.softmax(relay.transpose(scores, (0, 2, 1)))
    return relay.nn.batch_matmul(weights, var("v", 2, 8, 4), transpose_b=False)


def _other_sum() -> relay.Expr:
    scores = relay.nn.batch_matmul(var("q", 2, 8, 4), var("k", 2, 8, 4))
    largest = relay.max(scores, axis=-1, keepdims=True)
    total = relay.sum(relay.exp(scores), axis=-1, keepdims=True)
    weights = relay.exp(scores - largest) / total
    return relay.nn.batch_matmul(weights, var("v", 2, 8, 4), transpose_b=False)


def _weighed_twice() -> relay.Expr:
    scores = relay.nn.batch_matmul(var("q", 2, 8, 4), var("k", 2, 8, 4))
    weights = relay.nn.softmax(scores) * var("w", 2, 8, 8)
    return relay.nn.batch_matmul(weights, var("v", 2, 8, 4), transpose_b=False)


OTHERS = [_other_rows, _other_sum, _weighed_twice]


@pytest.mark.parametrize("body", OTHERS)
def test_what_is_no_softmax_of_rows_is_refused(body: Any) -> None:
    with pytest.raises(UnschedulableError):
        _found(body())


def test_inlining_leaves_products_and_softmax() -> None:
    info = describe(attention(2, 7, 9, 4, 5))
    sch = fresh_schedule(info.func)
    left = inline_around_softmax(sch, info)
    assert isinstance(sch.mod, tvm.IRModule)
    assert len(left.dots) == 2
    assert len(left.stages) < len(info.stages)
