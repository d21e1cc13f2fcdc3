"""Shared elements of products are loaded as vectors and taken from their lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.relay_modules import REASSOCIATING, assert_close
from tvm_fusionx.late_passes.context import ADD_LOWER_PASS, AFTER_LOWERING
from tvm_fusionx.late_passes.index_lanes import index_lanes

LANES, ROWS = 4, 3

# Takes the builder, the buffer of shared elements, row and term; returns the element.
Element = Callable[[Any, int, Any], Any]


def _by_row(depth: int) -> Element:
    return lambda a, row, term: tir.BufferLoad(a, [row * depth + term])


def _product(
    depth: int, element: Element, *, steps: int = 1, dtype: str = "float32", size: int = 0
) -> Any:
    """Return a function that sums `depth` products for each of three rows, `steps` written out."""
    a = tir.decl_buffer((size or ROWS * depth,), dtype, "a")
    w = tir.decl_buffer((depth * LANES,), "float32", "w")
    y = tir.decl_buffer((ROWS * LANES,), "float32", "y")
    ib = tir.ir_builder.create()
    sums = ib.allocate("float32", (ROWS * LANES,), "sums", scope="local")._buffer

    def at(start: Any) -> Any:
        return tir.Ramp(start, 1, LANES)

    for row in range(ROWS):
        zero = tir.Broadcast(tir.const(0, "float32"), LANES)
        ib.emit(tir.BufferStore(sums, zero, [at(row * LANES)]))
    with ib.for_range(0, depth // steps, "term") as outer:
        for step in range(steps):
            term = outer * steps + step
            weights = tir.BufferLoad(w, [at(term * LANES)])
            for row in range(ROWS):
                value = tir.Cast("float32", element(a, row, term)) if dtype != "float32" else None
                shared = element(a, row, term) if value is None else value
                total = tir.BufferLoad(sums, [at(row * LANES)])
                added = total + tir.Broadcast(shared, LANES) * weights
                ib.emit(tir.BufferStore(sums, added, [at(row * LANES)]))
    for row in range(ROWS):
        ib.emit(tir.BufferStore(y, tir.BufferLoad(sums, [at(row * LANES)]), [at(row * LANES)]))
    return tir.PrimFunc([a, w, y], ib.get())


def _lowered(func: Any, lanes: int = LANES) -> Any:
    config = {ADD_LOWER_PASS: [(AFTER_LOWERING, index_lanes(lanes))]}
    with tvm.transform.PassContext(opt_level=3, config=config):
        return tvm.lower(func)["main"]


def _lanes_taken(func: Any) -> list[int]:
    """Return the lanes that shared elements are taken from, one entry an occurrence."""
    found: list[int] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.Shuffle):
            (lane,) = node.indices
            found.append(int(lane))

    tir.stmt_functor.post_order_visit(func.body, visit)
    return found


def _single_loads(func: Any) -> int:
    """Return how many elements are loaded alone and repeated."""
    found = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.Broadcast) and isinstance(node.value, tir.BufferLoad):
            found.append(node)

    tir.stmt_functor.post_order_visit(func.body, visit)
    return len(found)


def _run(func: Any, arrays: list[np.ndarray]) -> np.ndarray:
    config = {ADD_LOWER_PASS: [(AFTER_LOWERING, index_lanes(LANES))]}
    with tvm.transform.PassContext(opt_level=3, config=config):
        built = tvm.build(func, "llvm")
    result = tvm.nd.empty((ROWS * LANES,))
    built(*map(tvm.nd.array, arrays), result)
    return result.numpy().reshape(ROWS, LANES)


@pytest.mark.parametrize("depth", [4, 8, 11, 13])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_sums_are_the_same(depth: int, dtype: str) -> None:
    func = _product(depth, _by_row(depth), dtype=dtype)
    rng = np.random.default_rng(depth)
    a = rng.standard_normal((ROWS, depth)).astype(dtype)
    w = rng.standard_normal((depth, LANES)).astype("float32")
    found = _run(func, [a.ravel(), w.ravel()])
    assert_close([found], [a.astype("float32") @ w], REASSOCIATING)
    assert _lanes_taken(_lowered(func)) == [lane for lane in range(LANES) for _ in range(ROWS)]


ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=+neon"


def test_a_vector_of_halves_is_converted_once_for_all_of_its_lanes() -> None:
    func = _product(8, _by_row(8), dtype="float16")
    casts: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.Cast):
            casts.append(node.dtype)

    tir.stmt_functor.post_order_visit(_lowered(func).body, visit)
    assert casts == [f"float32x{LANES}"] * ROWS
    config = {ADD_LOWER_PASS: [(AFTER_LOWERING, index_lanes(LANES))]}
    with tvm.transform.PassContext(opt_level=3, config=config):
        code = tvm.build(func, target=ARM).get_source("asm")
    words = [line.split()[0] for line in code.splitlines() if line.startswith("\t")]
    assert words.count("fcvtl") + words.count("fcvtl2") >= ROWS, words
    assert "fcvt" not in words


def test_terms_that_are_left_over_have_a_loop_of_their_own() -> None:
    lowered = _lowered(_product(11, _by_row(11)))
    assert len(_lanes_taken(lowered)) == LANES * ROWS
    assert _single_loads(lowered) == ROWS


@pytest.mark.parametrize("depth", [16, 24])
def test_terms_that_are_written_out_already_share_vectors(depth: int) -> None:
    func = _product(depth, _by_row(depth), steps=8)
    lowered = _lowered(func)
    assert _single_loads(lowered) == 0
    assert sorted(_lanes_taken(lowered)) == sorted([*range(LANES)] * ROWS * 2)
    rng = np.random.default_rng(depth)
    a = rng.standard_normal((ROWS, depth)).astype("float32")
    w = rng.standard_normal((depth, LANES)).astype("float32")
    assert_close([_run(func, [a.ravel(), w.ravel()])], [a @ w], REASSOCIATING)


def _apart(a: Any, row: int, term: Any) -> Any:
    return tir.BufferLoad(a, [term * ROWS * 2 + row * 2])


def _sometimes(a: Any, row: int, term: Any) -> Any:
    load = tir.BufferLoad(a, [row * 8 + term])
    return tir.if_then_else(term < 6, load, tir.const(0, "float32"))


@pytest.mark.parametrize(
    ("depth", "element"),
    [(8, _apart), (8, _sometimes), (3, _by_row(3))],
    ids=["apart", "not always read", "too few"],
)
def test_what_no_vector_holds_stays(depth: int, element: Element) -> None:
    func = _product(depth, element, size=ROWS * depth * 2)
    assert not _lanes_taken(_lowered(func))
    assert tvm.ir.structural_equal(_lowered(func), tvm.lower(func)["main"])


def test_what_the_loop_writes_is_not_loaded_early() -> None:
    """A running product reads what the term before wrote."""
    x = tir.decl_buffer((17 * LANES,), "float32", "x")
    ib = tir.ir_builder.create()
    with ib.for_range(0, 16, "term") as term:
        value = tir.Broadcast(tir.BufferLoad(x, [term]), LANES) * tir.BufferLoad(
            x, [tir.Ramp(term * LANES, 1, LANES)]
        )
        ib.emit(tir.BufferStore(x, value, [tir.Ramp((term + 1) * LANES, 1, LANES)]))
    assert not _lanes_taken(_lowered(tir.PrimFunc([x], ib.get())))


def test_a_run_gives_as_many_vectors_as_fit() -> None:
    """Seven neighbours of one iteration: a vector of four, and three that stay single."""
    a = tir.decl_buffer((64,), "float32", "a")
    y = tir.decl_buffer((8 * LANES,), "float32", "y")
    ib = tir.ir_builder.create()
    with ib.for_range(0, 8, "row") as row:
        for column in range(7):
            at = tir.Ramp(row * LANES, 1, LANES)
            total = tir.BufferLoad(y, [at])
            shared = tir.Broadcast(tir.BufferLoad(a, [row * 8 + column]), LANES)
            ib.emit(tir.BufferStore(y, total + shared * total, [at]))
    lowered = _lowered(tir.PrimFunc([a, y], ib.get()))
    assert sorted(_lanes_taken(lowered)) == [0, 1, 2, 3]
    assert _single_loads(lowered) == 3


def test_of_halves_a_register_has_twice_as_many() -> None:
    depth, lanes = 16, 2 * LANES
    a, w, y = (
        tir.decl_buffer((size,), "float16", name)
        for size, name in ((depth, "a"), (depth * lanes, "w"), (lanes, "y"))
    )
    ib = tir.ir_builder.create()
    total = tir.Ramp(0, 1, lanes)
    ib.emit(tir.BufferStore(y, tir.Broadcast(tir.const(0, "float16"), lanes), [total]))
    with ib.for_range(0, depth, "term") as term:
        shared = tir.Broadcast(tir.BufferLoad(a, [term]), lanes)
        product = shared * tir.BufferLoad(w, [tir.Ramp(term * lanes, 1, lanes)])
        ib.emit(tir.BufferStore(y, tir.BufferLoad(y, [total]) + product, [total]))
    widths: list[int] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad) and node.buffer.name == "a":
            widths.append(int(getattr(node.indices[0], "lanes", 1)))

    lowered = _lowered(tir.PrimFunc([a, w, y], ib.get()))
    tir.stmt_functor.post_order_visit(lowered.body, visit)
    assert set(widths) == {lanes}
