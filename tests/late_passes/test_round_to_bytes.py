"""Sums are rounded to bytes by instructions that saturate; neighbours in one register."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.devices.emulated_board import emulated_boards
from tests.late_passes.halves_in_pairs import ARM, LANES, instructions, lowered
from tvm_fusionx.devices import Device, export_kernel
from tvm_fusionx.expressions.round_even import register_rounding
from tvm_fusionx.late_passes.context import ADD_LOWER_PASS, AFTER_LOWERING
from tvm_fusionx.late_passes.round_to_bytes import round_to_bytes
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.targets import resolve_target
from tvm_fusionx.tuning.bench import Bench

PASS = round_to_bytes(describe_cpu(resolve_target(ARM)).rounding)
ROWS, WIDE = 3, 64


def _lines(
    starts: Sequence[int],
    dtype: str,
    *,
    zero: int = 0,
    bounds: tuple[int, int] | None = None,
    lanes: int = LANES,
) -> Any:
    """Return a function that quantizes a vector at each of `starts`, in each of some rows."""
    register_rounding()
    low, high = bounds or (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = tir.decl_buffer((ROWS * WIDE,), "float32", "x")
    y = tir.decl_buffer((ROWS * WIDE,), dtype, "y")

    def number(value: int) -> Any:
        return tir.Broadcast(tir.const(value, "float32"), lanes)

    ib = tir.ir_builder.create()
    with ib.for_range(0, ROWS, "row") as row:
        for start in starts:
            place = tir.Ramp(row * WIDE + start, 1, lanes)
            value = tir.nearbyint(tir.BufferLoad(x, [place]))
            value = value + number(zero) if zero else value
            value = tir.Max(tir.Min(value, number(high)), number(low))
            ib.emit(tir.BufferStore(y, tir.Cast(f"{dtype}x{lanes}", value), [place]))
    return tir.PrimFunc([x, y], ib.get())


def _lanes_stored(func: Any) -> list[int]:
    found: list[int] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferStore) and node.buffer.dtype in ("int8", "uint8"):
            found.append(int(node.indices[0].lanes))

    tir.stmt_functor.post_order_visit(func.body, visit)
    return found


@pytest.mark.parametrize(
    ("starts", "lanes"),
    [([0, 4, 8, 12], [16]), ([4, 0, 12, 8, 16], [16, 4]), ([0, 4, 20], [8, 4]), ([0, 8], [4, 4])],
)
def test_neighbours_are_one_store(starts: list[int], lanes: list[int]) -> None:
    assert sorted(_lanes_stored(lowered(_lines(starts, "uint8"), PASS))) == sorted(lanes)


@pytest.mark.parametrize(("zero", "added"), [(0, 0), (3, 2)])
def test_four_vectors_take_ten_instructions(zero: int, added: int) -> None:
    code = instructions(_lines([0, 4, 8, 12], "uint8", zero=zero), PASS)
    wanted = {"fcvtns": 4, "sqxtn": 2, "sqxtn2": 2, "sqxtun": 1, "sqxtun2": 1, "sqadd": added}
    # LLVM writes the rows out.
    assert {each: code[each] / ROWS for each in wanted} == wanted
    assert not any(code[each] for each in ("frinti", "fminnm", "fmaxnm", "fcvtzs", "xtn"))


@pytest.mark.parametrize("bounds", [(-128, 128), (3, 2)])
def test_bounds_that_are_none_of_bytes_stay(bounds: tuple[int, int]) -> None:
    func = _lines([0, 4], "int8", bounds=bounds)
    assert tvm.ir.structural_equal(lowered(func, PASS), lowered(func))


def test_a_line_that_reads_what_it_stores_is_narrowed_one_by_one() -> None:
    register_rounding()
    y = tir.decl_buffer((64,), "uint8", "y")
    ib = tir.ir_builder.create()
    for start in (0, 4):
        more = tir.Cast("float32x4", tir.BufferLoad(y, [tir.Ramp(4 - start, 1, LANES)]))
        value = tir.nearbyint(more * tir.Broadcast(tir.const(1.5, "float32"), LANES))
        low, high = (tir.Broadcast(tir.const(each, "float32"), LANES) for each in (0, 255))
        value = tir.Cast("uint8x4", tir.Max(tir.Min(value, high), low))
        ib.emit(tir.BufferStore(y, value, [tir.Ramp(start, 1, LANES)]))
    assert _lanes_stored(lowered(tir.PrimFunc([y], ib.get()), PASS)) == [4, 4]


def test_processors_without_such_instructions_keep_their_code() -> None:
    assert describe_cpu(resolve_target("llvm -mcpu=znver4")).rounding is None
    func = _lines([0, 4], "int8")
    assert tvm.ir.structural_equal(lowered(func, round_to_bytes(None)), lowered(func))


@pytest.fixture(scope="module", name="board")
def fixture_board() -> Iterator[Device]:
    with emulated_boards() as emulation:
        yield emulation.device


def _numbers() -> np.ndarray:
    """Return halves, what the types end at, and what 16 and 32 bits do not hold."""
    generator = np.random.default_rng(0)
    x = (generator.standard_normal(ROWS * WIDE) * 150).astype("float32")
    x[::3] = np.round(x[::3]) + 0.5
    edges = [0.5, 1.5, -0.5, -1.5, 254.5, 255.5, -128.5, 127.5, 32767.5, -32769, 65536.0, -65537.0]
    far = [2.0**31, -(2.0**31), 3e9, -3e9, 1e30, -1e30, np.inf, -np.inf, 1e-30, -0.0]
    x[: len(edges + far)] = edges + far
    return x


CASES = [
    ([0, 4, 8, 12, 16], "uint8", 0, None, 4),
    ([0, 4, 8, 12, 20, 24], "uint8", 131, None, 4),
    ([0, 4, 8, 12, 16], "int8", -7, None, 4),
    ([0, 4, 8], "int8", 0, (-127, 100), 4),
    ([0, 16], "uint8", 5, (5, 200), 16),
    ([0, 12], "int8", 0, None, 12),
]


@pytest.mark.slow
def test_numbers_are_the_same(board: Device, tmp_path: Path) -> None:
    x = _numbers()
    config = {ADD_LOWER_PASS: [(AFTER_LOWERING, PASS)]}
    target = board.tvm_target()
    with Bench(board) as bench:
        session = bench.session()
        for number, (starts, dtype, zero, bounds, lanes) in enumerate(CASES):
            func = _lines(starts, dtype, zero=zero, bounds=bounds, lanes=lanes)
            with tvm.transform.PassContext(opt_level=3, config=config):
                built = tvm.build(func, target=target)
            library = session.load(export_kernel(built, tmp_path / f"{number}.so", board))
            device = session.context
            y = tvm.nd.array(np.full(x.shape, 7, dtype), device)
            library(tvm.nd.array(x, device), y)
            limits = np.iinfo(dtype)
            low, high = bounds or (limits.min, limits.max)
            expected = np.full((ROWS, WIDE), 7, dtype)
            rounded = np.clip(np.rint(x.astype("float64")) + zero, low, high).astype(dtype)
            for start in starts:
                at = slice(start, start + lanes)
                expected[:, at] = rounded.reshape(ROWS, WIDE)[:, at]
            np.testing.assert_array_equal(y.numpy().reshape(ROWS, WIDE), expected)
