"""Two dot products of the same sums become one, where products are added in 16 bits."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tir
from tvm.target.codegen import llvm_get_intrinsic_name

from tvm_fusionx.late_passes.add_in_words import add_in_words
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.integers import DotInstruction
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.tir.dot_call import DOT_OPERATION, dot, register_dot

LANES, DEPTH = 4, 2

DATA = tir.decl_buffer((64,), "int8", "data")
WEIGHTS = tir.decl_buffer((256,), "int8", "weights")
SUMS = tir.decl_buffer((64,), "int32", "sums")
RESULT = tir.decl_buffer((64,), "int32", "result")


@pytest.fixture(autouse=True)
def _registered() -> None:
    register_dot()


def _instruction() -> DotInstruction:
    found = describe_cpu(resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72")).dot
    assert found is not None
    return found


def _at(vector: int) -> Any:
    return tir.Ramp(vector * LANES, 1, LANES)


def _step(vector: int, pair: int, *, apart: int = 1, reverse: bool = False) -> Any:
    """Return the statement that adds a pair's products to a vector of sums."""
    left = [
        tir.Broadcast(tir.BufferLoad(DATA, [pair * DEPTH + each * apart]), LANES)
        for each in range(DEPTH)
    ]
    start = pair * DEPTH * LANES
    right = [
        tir.BufferLoad(WEIGHTS, [tir.Ramp(start + each, DEPTH, LANES)]) for each in range(DEPTH)
    ]
    call = dot(left, right)
    call = tir.Call(f"int32x{LANES}", call.op, call.args)
    total = tir.BufferLoad(SUMS, [_at(vector)])
    value = call + total if reverse else total + call
    return tir.BufferStore(SUMS, value, [_at(vector)])


def _stored(vector: int) -> Any:
    """Return a statement that reads a vector of sums."""
    return tir.BufferStore(RESULT, tir.BufferLoad(SUMS, [_at(vector)]), [_at(vector)])


def _changed(*statements: Any) -> list[str]:
    """Return what became of statements: how many products each adds, or what else it is."""
    body = tir.SeqStmt(statements) if len(statements) > 1 else statements[0]
    module = tvm.IRModule({"main": tir.PrimFunc([DATA, WEIGHTS, SUMS, RESULT], body)})
    made = add_in_words(_instruction())(module)["main"].body
    return [_told(each) for each in (made.seq if isinstance(made, tir.SeqStmt) else [made])]


def _told(stmt: Any) -> str:
    names: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.Call):
            is_of_llvm = "llvm" in node.op.name
            name = llvm_get_intrinsic_name(int(node.args[0])) if is_of_llvm else node.op.name
            names.append(name)

    tir.stmt_functor.post_order_visit(stmt.value, visit)
    place = int(stmt.indices[0].base) // LANES
    products = names.count("llvm.aarch64.neon.smull")
    if products:
        assert names.count("llvm.aarch64.neon.saddlp") == 1
        return f"{place}: {products} together"
    return f"{place}: {'alone' if DOT_OPERATION in names else 'other'}"


def test_two_of_the_same_sums_become_one() -> None:
    line = [_step(vector, pair) for pair in range(2) for vector in range(3)]
    assert _changed(*line) == ["0: 2 together", "1: 2 together", "2: 2 together"]


def test_the_order_of_the_addition_is_no_matter() -> None:
    assert _changed(_step(0, 0, reverse=True), _step(0, 1)) == ["0: 2 together"]


def test_a_third_one_waits_for_a_fourth() -> None:
    steps = [_step(0, pair) for pair in range(5)]
    assert _changed(*steps) == ["0: 2 together", "0: 2 together", "0: alone"]


def test_what_reads_the_sums_sees_all_that_was_added() -> None:
    line = [_step(0, 0), _step(1, 0), _stored(0), _step(0, 1), _step(1, 1)]
    assert _changed(*line) == ["0: alone", "1: alone", "0: other", "0: alone", "1: alone"]


def test_products_that_no_instruction_makes_stay() -> None:
    assert _changed(_step(0, 0, apart=3), _step(0, 1, apart=3)) == ["0: alone"] * 2


def test_other_lines_stay() -> None:
    module = tvm.IRModule({"main": tir.PrimFunc([SUMS, RESULT], _stored(0))})
    assert tvm.ir.structural_equal(add_in_words(_instruction())(module), module)


def test_the_first_product_is_of_the_first_pair() -> None:
    """Data and weights of a pair stay together."""
    body = tir.SeqStmt([_step(0, 0), _step(0, 1)])
    module = tvm.IRModule({"main": tir.PrimFunc([DATA, WEIGHTS, SUMS, RESULT], body)})
    text = str(add_in_words(_instruction())(module))
    first, second = text.index("weights[0:8]"), text.index("weights[8:16]")
    assert first < text.index("data[0:2]") < second < text.index("data[2:4]")
