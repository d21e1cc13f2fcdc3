from __future__ import annotations

import pytest
import tvm
from tvm import tir

from tvm_fusionx.processors.integers import DotInstruction
from tvm_fusionx.tir.dot_call import (
    added_dot,
    dot,
    dot_of_vectors,
    is_dot_call,
    register_dot,
    sides_of,
    sum_of_neighbours,
)


@pytest.fixture(autouse=True)
def _registered() -> None:
    register_dot()


def test_its_sides_are_told_apart() -> None:
    left, right = [tir.Var(f"a{i}", "int8") for i in range(4)], [tir.const(i) for i in range(4)]
    call = dot(left, right)
    assert call.dtype == "int32"
    for found, given in zip(sides_of(call), (left, right), strict=True):
        assert all(map(tvm.ir.structural_equal, found, given))


def test_another_expression_is_none() -> None:
    x = tir.Var("x", "float32")
    assert is_dot_call(dot([x], [x]))
    assert not is_dot_call(x * x)
    assert not is_dot_call(tir.exp(x))


@pytest.mark.parametrize("takes_sum", [True, False])
def test_an_instruction_adds_to_the_sum_or_an_addition_follows(takes_sum: bool) -> None:
    instruction = DotInstruction(
        "uint8", "int8", 4, ((4, "llvm.aarch64.neon.sdot.v4i32.v16i8"),), takes_sum
    )
    data, weights = (tir.Broadcast(tir.const(1, dtype), 16) for dtype in ("uint8", "int8"))
    total = tir.Broadcast(tir.const(7, "int32"), 4)
    made = dot_of_vectors(instruction, total, data, weights, 4)
    assert made.dtype == "int32x4"
    assert isinstance(made, tir.Call if takes_sum else tir.Add)
    # Name and number of operands come first.
    operands = list((made if takes_sum else made.b).args)[2:]
    wanted = [total, data, weights] if takes_sum else [data, weights]
    assert all(map(tvm.ir.structural_equal, operands, wanted))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("has_total", [True, False])
def test_products_are_added_in_words_and_then_with_their_neighbours(
    count: int, has_total: bool
) -> None:
    instruction = DotInstruction(
        *("int8", "int8", 2, ((4, "llvm.aarch64.neon.smull.v8i16"),), False),
        neighbours="llvm.aarch64.neon.saddlp.v4i32.v8i16",
        together=2,
    )
    vectors = [tir.Broadcast(tir.const(place, "int8"), 8) for place in range(2 * count)]
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    total = tir.Broadcast(tir.const(7, "int32"), 4) if has_total else None
    made = sum_of_neighbours(instruction, total, pairs, 4)
    assert made.dtype == "int32x4"
    assert isinstance(made, tir.Add) == has_total
    words = (made.b if has_total else made).args[2]
    assert words.dtype == "int16x8"
    products = [words.a, words.b] if count == 2 else [words]
    for product, (data, weights) in zip(products, pairs, strict=True):
        assert list(product.args)[2:] == [weights, data]
    if count == 1:
        alone = dot_of_vectors(instruction, total, *pairs[0], 4)
        assert tvm.ir.structural_equal(alone, made)


def test_a_dot_product_is_added_where_its_sums_lie() -> None:
    sums, other = (tir.decl_buffer((8,), "int32") for _ in range(2))
    data, weights = (tir.decl_buffer((4,), "int8") for _ in range(2))
    pairs = [(data.vload([at], "int8"), weights.vload([at], "int8")) for at in range(4)]
    call = dot(*map(list, zip(*pairs, strict=True)))
    total = tir.BufferLoad(sums, [3])
    for value in (total + call, call + total):
        found = added_dot(tir.BufferStore(sums, value, [3]))
        assert found is not None
        assert found[0].same_as(total)
        assert found[1].same_as(call)
    assert added_dot(tir.BufferStore(sums, total + call, [4])) is None
    assert added_dot(tir.BufferStore(other, total + call, [3])) is None
    assert added_dot(tir.BufferStore(sums, call, [3])) is None
    assert added_dot(tir.BufferStore(sums, total + total, [3])) is None
