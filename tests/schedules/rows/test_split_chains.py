"""Sums of few vectors become several chains: which ones, and that every element counts once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

from tests.relay_modules import REASSOCIATING, assert_close
from tests.schedules.blocked_blocks import AVX2
from tvm_fusionx.schedules.rows.split_chains import LEAST_TERMS_OF_A_CHAIN, chains_of, split_chains
from tvm_fusionx.tir.block import collect_blocks, describe_stage

MOST = 8


def _sums(
    chunks: int,
    pixels: tuple[int, int],
    lanes: int,
    *,
    combine: Callable[..., Any] = te.sum,
    turned: bool = False,
) -> te.PrimFunc:
    """Return the sums of the pixels of `chunks` chunks of channels."""
    shape = (1, chunks, *pixels, lanes)
    data = te.placeholder((*shape[:2], lanes, *pixels) if turned else shape, name="data")
    row, column = (te.reduce_axis((0, extent), name=f"k{extent}") for extent in pixels)

    def term(n: Any, chunk: Any, lane: Any) -> Any:
        place = (lane, row, column) if turned else (row, column, lane)
        return combine(data[(n, chunk, *place)] * 2.0, axis=[row, column])

    total = te.compute((1, chunks, lanes), term, name="total")
    return te.create_prim_func([data, total], index_dtype_override="int64")


def _chains(func: te.PrimFunc, most: int = MOST) -> int:
    (block,) = collect_blocks(func)
    return chains_of(describe_stage(block), AVX2, most)


@pytest.mark.parametrize(
    ("chunks", "pixels", "chains"),
    [
        (1, (12, 96), 6),
        # Eleven chunks are added up one after the other, as none but one and eleven divide them.
        (11, (3, 96), 6),
        (11, (7, 7), 7),
        (11, (10, 10), 5),
        # No divisor gives enough chains: as many as there are.
        (11, (9, 4), 4),
        (2, (9, 9), 3),
    ],
)
def test_few_vectors_are_summed_in_several_chains(
    chunks: int, pixels: tuple[int, int], chains: int
) -> None:
    assert _chains(_sums(chunks, pixels, 8)) == chains


LEFT_ALONE = {
    "vectors enough side by side": _sums(12, (3, 96), 8),
    "few terms": _sums(1, (1, LEAST_TERMS_OF_A_CHAIN), 8),
    "a prime number of terms": _sums(1, (1, 37), 8),
    "terms side by side": _sums(1, (12, 96), 8, turned=True),
    "chunks of few channels": _sums(1, (12, 96), 2),
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_others_stay_one_chain(case: str) -> None:
    assert _chains(LEFT_ALONE[case]) == 1


def test_the_knob_of_rows_side_by_side_bounds_the_chains() -> None:
    assert _chains(_sums(1, (12, 96), 8), most=4) == 4
    assert _chains(_sums(1, (12, 96), 8), most=1) == 1


@pytest.mark.parametrize("pixels", [(12, 96), (5, 28), (7, 7), (1, 24)])
def test_every_element_counts_once(pixels: tuple[int, int]) -> None:
    func = split_chains(_sums(2, pixels, 8), AVX2, MOST)
    assert [block.name_hint for block in collect_blocks(func)] == ["total_chains", "total"]
    data = np.random.default_rng(0).integers(-9, 9, (1, 2, *pixels, 8)).astype("float32")
    out = tvm.nd.empty((1, 2, 8))
    tvm.build(func, "llvm")(tvm.nd.array(data), out)
    np.testing.assert_array_equal(out.numpy(), 2 * data.sum(axis=(2, 3)))


def test_the_largest_is_found_as_well() -> None:
    func = split_chains(_sums(1, (12, 96), 8, combine=te.max), AVX2, MOST)
    assert len(collect_blocks(func)) == 2
    data = -1 - np.random.default_rng(0).random((1, 1, 12, 96, 8), dtype="float32")
    out = tvm.nd.empty((1, 1, 8))
    tvm.build(func, "llvm")(tvm.nd.array(data), out)
    np.testing.assert_array_equal(out.numpy(), 2 * data.max(axis=(2, 3)))


def test_parts_agree_with_the_whole_where_numbers_round() -> None:
    data = np.random.default_rng(1).standard_normal((1, 11, 3, 96, 8)).astype("float32")
    out = tvm.nd.empty((1, 11, 8))
    tvm.build(split_chains(_sums(11, (3, 96), 8), AVX2, MOST), "llvm")(tvm.nd.array(data), out)
    exact = 2 * data.astype("float64").sum(axis=(2, 3))
    assert_close([out.numpy()], [exact.astype("float32")], REASSOCIATING)
