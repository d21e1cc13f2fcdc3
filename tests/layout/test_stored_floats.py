from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.passes.assert_pass import block
from tests.relay_modules import const, module, var
from tvm_fusionx.layout.float16 import FEWEST_ELEMENTS, store_float16, why_not_float16

WIDTH = 16


def _relu(name: str) -> relay.Function:
    p = var("p", 4, WIDTH)
    return block(name, [p], relay.nn.relu(p))


def _view(name: str) -> relay.Function:
    p = var("p", 4, WIDTH)
    return block(name, [p], relay.reshape(p, (WIDTH, 4)), relay_reshape_only=1)


def _sort(name: str) -> relay.Function:
    p = var("p", 4, WIDTH)
    return block(name, [p], relay.sort(p))


def _stored(*results: relay.Expr) -> list[tuple[str, ...]]:
    """Return, for each block in order, the dtypes of its parameters and of its result."""
    function = store_float16(module(*results)["main"])
    found: list[tuple[str, ...]] = []

    def visit(node: relay.Expr) -> None:
        if isinstance(node, relay.Call) and isinstance(node.op, relay.Function):
            typed = module(node.op.body, params=list(node.op.params))["main"]
            params = [str(p.checked_type.dtype) for p in typed.params]
            of = typed.ret_type
            fields = of.fields if isinstance(of, relay.TupleType) else [of]
            found.append((*params, *(str(field.dtype) for field in fields)))

    relay.analysis.post_order_visit(function.body, visit)
    return found


S, H = "float32", "float16"
x = var("x", 4, WIDTH)


def test_what_passes_between_blocks_is_half_and_the_models_own_tensors_are_not() -> None:
    assert _stored(_relu("b")(_relu("a")(x))) == [(S, H), (H, S)]


def test_a_result_that_somebody_reads_too_stays_whole() -> None:
    first = _relu("a")(x)
    assert _stored(first, _relu("b")(first)) == [(S, S), (S, S)]
    assert _stored(relay.abs(_relu("a")(x))) == [(S, S)]


@pytest.mark.parametrize("kept", [False, True])
def test_a_view_keeps_what_it_is_given(kept: bool) -> None:
    view = _view("v")(_relu("a")(x))
    p = var("p", WIDTH, 4)
    after = block("b", [p], relay.nn.relu(p))(view)
    expected = [(S, S), (S, S), (S, S)] if kept else [(S, H), (H, H), (H, S)]
    assert _stored(*([after, view] if kept else [after])) == expected
    # A view of a model's own tensor.
    assert _stored(after.op(_view("v")(x))) == [(S, S), (S, S)]


def test_blocks_that_tvm_schedules_by_itself_take_and_give_float32() -> None:
    assert _stored(_relu("b")(_sort("s")(_relu("a")(x)))) == [(S, S), (S, S), (S, S)]
    assert why_not_float16(_sort("s")) == "TVM schedules sort by itself"
    assert why_not_float16(_relu("a")) is None
    inner = block("outer", [x], relay.Call(_relu("a"), [x]))
    assert why_not_float16(inner) == "it calls a function"


def test_results_of_a_block_are_chosen_one_by_one() -> None:
    p = var("p", 4, WIDTH)
    two = block("two", [p], relay.Tuple([relay.nn.relu(p), relay.abs(p)]))(x)
    first, second = relay.TupleGetItem(two, 0), relay.TupleGetItem(two, 1)
    assert _stored(_relu("b")(first), second) == [(S, H, S), (H, S)]
    q = var("q", 4, WIDTH)
    halves = block("split", [q], relay.split(q, 2, axis=1).astuple())(x)
    left, right = var("p", 4, WIDTH // 2), var("p", 4, WIDTH // 2)
    one = block("b", [left], relay.nn.relu(left))(relay.TupleGetItem(halves, 0))
    other = block("c", [right], relay.abs(right))(relay.TupleGetItem(halves, 1))
    assert _stored(one, other) == [(S, H, H), (H, S), (H, S)]


def _added(constant: relay.Constant) -> list[tuple[str, ...]]:
    shape = constant.data.shape
    p, q = var("p", *shape), var("q", *shape)
    return _stored(block("a", [p, q], p + q)(var("x", *shape), constant))


def test_large_constants_are_stored_as_half() -> None:
    assert _added(const(FEWEST_ELEMENTS)) == [(S, H, S)]
    assert _added(const(FEWEST_ELEMENTS - 1)) == [(S, S, S)]
    beyond = np.full(FEWEST_ELEMENTS, 7e4, "float32")
    assert _added(relay.const(beyond)) == [(S, S, S)]
    whole = np.zeros(FEWEST_ELEMENTS, "int32")
    p = relay.var("p", shape=whole.shape, dtype="int32")
    kept = block("a", [p], relay.cast(p, "float32"))(relay.const(whole))
    assert _stored(kept) == [("int32", S)]


def test_whole_numbers_are_left_alone() -> None:
    p = var("p", 4, WIDTH)
    q = var("q", 4, dtype="int32")
    first = block("a", [p], relay.argmax(p, axis=1))(x)
    assert _stored(block("b", [q], q + q)(first)) == [(S, "int32"), ("int32", "int32")]
