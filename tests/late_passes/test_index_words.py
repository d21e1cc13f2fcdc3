"""Shared words of dot products are loaded as vectors and taken from their lanes."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tir

from tvm_fusionx.late_passes.context import ADD_LOWER_PASS, AFTER_LOWERING
from tvm_fusionx.late_passes.emit_dots import emit_dots
from tvm_fusionx.late_passes.index_words import index_words
from tvm_fusionx.lowering import register
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.tir.dot_call import dot

CPU = describe_cpu(resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"))
LANES, DEPTH = 4, 4


def _kernel(pixels: int, step: int) -> Any:
    """Return a function that multiplies words `step` apart by one vector, a sum for each."""
    data = tir.decl_buffer((2 * pixels * step * DEPTH,), "int8", "data")
    weights = tir.decl_buffer((DEPTH * LANES,), "int8", "weights")
    sums = tir.decl_buffer((pixels * LANES,), "int32", "sums")
    ib = tir.ir_builder.create()
    with ib.for_range(0, 2, "row") as row:
        for pixel in range(pixels):
            first = (row * pixels + pixel) * step * DEPTH
            left = [
                tir.Broadcast(tir.BufferLoad(data, [first + each]), LANES) for each in range(DEPTH)
            ]
            right = [
                tir.BufferLoad(weights, [tir.Ramp(each, DEPTH, LANES)]) for each in range(DEPTH)
            ]
            product = dot(left, right)
            product = tir.Call(f"int32x{LANES}", product.op, product.args)
            at = tir.Ramp(pixel * LANES, 1, LANES)
            total = tir.BufferLoad(sums, [at]) + product
            ib.emit(tir.BufferStore(sums, total, [at]))
    return tir.PrimFunc([data, weights, sums], ib.get())


def _lowered(pixels: int, step: int) -> Any:
    register()
    passes = [(AFTER_LOWERING, emit_dots(CPU.dot)), (AFTER_LOWERING, index_words(LANES))]
    with tvm.transform.PassContext(opt_level=3, config={ADD_LOWER_PASS: passes}):
        return tvm.lower(_kernel(pixels, step))["main"]


def _taken(func: Any) -> list[tuple[int, int]]:
    """Return for each word that comes from a lane: where its vector begins in the first row, and
    which lane it is."""
    found: list[tuple[int, int]] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.Shuffle):
            (vector,), (lane,) = node.vectors, node.indices
            (load,) = vector.args
            begin = load.indices[0].base
            zeros = {var: tir.const(0, var.dtype) for var in tir.analysis.undefined_vars(begin)}
            place = tvm.arith.Analyzer().simplify(tir.stmt_functor.substitute(begin, zeros))
            found.append((int(place), int(lane)))

    tir.stmt_functor.post_order_visit(func.body, visit)
    return found


@pytest.mark.parametrize(
    ("pixels", "step", "taken"),
    [
        (4, 1, [(0, 0), (0, 1), (0, 2), (0, 3)]),
        # The last vector overlaps the one before.
        (6, 1, [(0, 0), (0, 1), (0, 2), (0, 3), (8, 2), (8, 3)]),
        # Every second word; no vector reads behind the last one.
        (4, 2, [(0, 0), (0, 2), (12, 1), (12, 3)]),
        (3, 1, []),
        (4, 3, []),
    ],
)
def test_neighbouring_words_are_lanes(pixels: int, step: int, taken: list[tuple[int, int]]) -> None:
    found = _taken(_lowered(pixels, step))
    assert found == taken
    places = [begin + lane * DEPTH for begin, lane in found]
    assert places == ([pixel * step * DEPTH for pixel in range(pixels)] if taken else [])


def _pairs(pixels: int, step: int) -> Any:
    """Return a line that repeats both pairs of bytes of words `step` apart, four times each."""
    data = tir.decl_buffer((8 * pixels * step,), "int8", "data")
    found = tir.decl_buffer((16 * pixels,), "int8", "found")
    line = []
    for pixel in range(pixels):
        for half in range(2):
            at = tir.Ramp(pixel * step * DEPTH + 2 * half, 1, 2)
            pair = tir.call_intrin("int16", "tir.reinterpret", tir.BufferLoad(data, [at]))
            repeated = tir.call_intrin("int8x8", "tir.reinterpret", tir.Broadcast(pair, LANES))
            line.append(tir.BufferStore(found, repeated, [tir.Ramp(16 * pixel + 8 * half, 1, 8)]))
    func = tir.PrimFunc([data, found], tir.SeqStmt(line))
    return index_words(LANES, 2)(tvm.IRModule({"main": func}))["main"]


@pytest.mark.parametrize(
    ("pixels", "step", "taken"),
    [
        (4, 1, [(0, lane) for lane in range(8)]),
        # Of the fifth pixel, the last two of an overlapping vector.
        (5, 1, [*((0, lane) for lane in range(8)), (4, 6), (4, 7)]),
        # Every second pixel.
        (3, 2, [(0, 0), (0, 1), (0, 4), (0, 5), (4, 6), (4, 7)]),
        (3, 1, []),
        (3, 3, []),
    ],
)
def test_pairs_of_bytes_are_lanes(pixels: int, step: int, taken: list[tuple[int, int]]) -> None:
    found = _taken(_pairs(pixels, step))
    assert found == taken
    wanted = [pixel * step * DEPTH + 2 * half for pixel in range(pixels) for half in range(2)]
    assert [begin + 2 * lane for begin, lane in found] == (wanted if taken else [])


def test_words_of_what_the_line_writes_stay() -> None:
    """What is stored between two words would not be seen by the second one."""
    place = tir.decl_buffer((64,), "int8", "place")
    word = tir.call_intrin("int32", "tir.reinterpret", tir.BufferLoad(place, [tir.Ramp(0, 1, 4)]))
    repeated = tir.call_intrin("int8x16", "tir.reinterpret", tir.Broadcast(word, LANES))
    line = [tir.BufferStore(place, repeated, [tir.Ramp(16 * each, 1, 16)]) for each in range(4)]
    func = tir.PrimFunc([place], tir.SeqStmt(line))
    module = tvm.IRModule({"main": func})
    assert tvm.ir.structural_equal(index_words(LANES)(module), module)
