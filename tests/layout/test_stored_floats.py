from __future__ import annotations

import math

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.passes.assert_pass import block
from tests.relay_modules import const, module, run_plain, var
from tvm_fusionx.layout.stored_floats import (
    BRAIN,
    FEWEST_ELEMENTS,
    HALF,
    KEPT_OPERANDS,
    KEPT_RESULTS,
    LARGEST,
    store_narrow,
    why_not_narrow,
)

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


def _stored(
    *results: relay.Expr, dtype: str = HALF, most_uses: float = math.inf
) -> list[tuple[str, ...]]:
    """Return, for each block in order, the dtypes of its parameters and of its result."""
    function = store_narrow(module(*results)["main"], dtype, most_uses)
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


S, H = "float32", HALF
x = var("x", 4, WIDTH)


def test_what_passes_between_blocks_is_half_and_the_models_own_tensors_are_not() -> None:
    assert _stored(_relu("b")(_relu("a")(x))) == [(S, H), (H, S)]


def test_the_type_may_be_bfloat16() -> None:
    found = _stored(_relu("b")(_relu("a")(x)), dtype=BRAIN)
    assert found == [(S, BRAIN), (BRAIN, S)]


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
    assert why_not_narrow(_sort("s")) == "TVM schedules sort by itself"
    assert why_not_narrow(_relu("a")) is None
    inner = block("outer", [x], relay.Call(_relu("a"), [x]))
    assert why_not_narrow(inner) == "it calls a function"


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
    whole = np.zeros(FEWEST_ELEMENTS, "int32")
    p = relay.var("p", shape=whole.shape, dtype="int32")
    kept = block("a", [p], relay.cast(p, "float32"))(relay.const(whole))
    assert _stored(kept) == [("int32", S)]


def test_whole_numbers_are_left_alone() -> None:
    p = var("p", 4, WIDTH)
    q = var("q", 4, dtype="int32")
    first = block("a", [p], relay.argmax(p, axis=1))(x)
    assert _stored(block("b", [q], q + q)(first)) == [(S, "int32"), ("int32", "int32")]


def test_constants_that_are_multiplied_again_and_again_stay_wide() -> None:
    p, q = var("p", 64, 32), var("q", 32, 32)
    product = block("product", [p, q], relay.nn.dense(p, q))(var("x", 64, 32), const(32, 32))
    assert _stored(product) == [(S, H, S)]
    assert _stored(product, most_uses=64) == [(S, H, S)]
    assert _stored(product, most_uses=63) == [(S, S, S)]


def _passed(name: str, operand: relay.Expr, body: relay.Expr) -> list[tuple[str, ...]]:
    """Return the types of a block that computes `body` between two others."""
    (p,) = relay.analysis.free_vars(body)
    shape = [int(each) for each in module(body)["main"].ret_type.shape]
    q = var("q", *shape, dtype=str(module(body)["main"].ret_type.dtype))
    return _stored(block("after", [q], relay.tanh(q))(block(name, [p], body)(operand)))


GROWING = {
    "exp": lambda p: relay.exp(p),
    "power": lambda p: relay.power(p, relay.const(3.0)),
    "sum": lambda p: relay.sum(p, axis=1, keepdims=True),
}


@pytest.mark.parametrize("name", GROWING)
def test_results_that_grow_stay_wide(name: str) -> None:
    assert name in KEPT_RESULTS
    p = var("p", 4, WIDTH)
    assert _passed(name, _relu("a")(x), GROWING[name](p))[1:] == [(H, S), (S, S)]


COMPARED = {
    "floor": lambda p: relay.floor(p),
    "less": lambda p: relay.cast(relay.less(p, relay.const(0.3)), S),
    "argmax": lambda p: relay.cast(relay.argmax(p, axis=1, keepdims=True), S),
    "sin": lambda p: relay.sin(p),
}


@pytest.mark.parametrize("name", COMPARED)
def test_operands_that_need_all_their_digits_stay_wide(name: str) -> None:
    assert name in KEPT_OPERANDS
    p = var("p", 4, WIDTH)
    assert _passed(name, _relu("a")(x), COMPARED[name](p))[0] == (S, S)


def test_what_is_cast_to_whole_numbers_stays_wide() -> None:
    p = var("p", 4, WIDTH)
    counts = relay.cast(relay.cast(p, "int32"), S)
    assert _passed("cast", _relu("a")(x), counts)[0] == (S, S)


BEYOND = np.float32([[1e38, -3.4e38, 65504, 70000], [np.inf, -np.inf, np.nan, 1.5]])


@pytest.mark.parametrize(("dtype", "step"), [(HALF, 2.0**-11), (BRAIN, 2.0**-8)])
def test_numbers_too_large_for_the_type_are_stored_as_its_largest(dtype: str, step: float) -> None:
    p, q = var("p", 2, 4), var("q", 2, 4)
    first = block("a", [p], relay.negative(p))(var("x", 2, 4))
    mod = module(block("b", [q], relay.negative(q))(first))
    function = store_narrow(mod["main"], dtype)
    (found,) = run_plain(tvm.IRModule.from_expr(function), {"x": BEYOND})
    expected = np.clip(BEYOND, -LARGEST[dtype], LARGEST[dtype])
    np.testing.assert_allclose(found, expected, rtol=step)


@pytest.mark.parametrize("dtype", [HALF, BRAIN])
def test_a_constant_too_large_for_the_type_is_stored_as_its_largest(dtype: str) -> None:
    mask = np.full(FEWEST_ELEMENTS, np.finfo(np.float32).min)
    p, q = var("p", FEWEST_ELEMENTS), var("q", FEWEST_ELEMENTS)
    added = block("a", [p, q], relay.minimum(p, q))
    mod = module(added(var("x", FEWEST_ELEMENTS), relay.const(mask)))
    given = {"x": np.zeros(FEWEST_ELEMENTS, "float32")}
    (found,) = run_plain(tvm.IRModule.from_expr(store_narrow(mod["main"], dtype)), given)
    np.testing.assert_array_equal(found, np.full(FEWEST_ELEMENTS, -LARGEST[dtype], "float32"))


@pytest.mark.parametrize(("largest", "warns"), [(65504.0, False), (70000.0, True)])
def test_a_constant_that_does_not_fit_is_named(
    largest: float, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = np.zeros(FEWEST_ELEMENTS, "float32")
    numbers[[3, 5]] = -largest
    p, q = var("p", FEWEST_ELEMENTS), var("q", FEWEST_ELEMENTS)
    added = block("fused_add", [p, q], relay.add(p, q), nodes="/layer/Add")
    mod = module(added(var("x", FEWEST_ELEMENTS), relay.const(numbers)))
    store_narrow(mod["main"], HALF)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == warns
    if warns:
        assert "block fused_add (nodes /layer/Add): 2 of its numbers" in messages[0]
        assert "65504" in messages[0]
