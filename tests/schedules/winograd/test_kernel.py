"""The hand-laid loops: every division of the work computes the same convolution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import tir

from tests.sampled import few_fast_rows
from tests.schedules.winograd_convolution import WINOGRAD_TOLERANCE
from tests.verified_kernels import assert_kernel
from tvm_fusionx.expressions.minimal_filtering import FILTERINGS, panel_weights, transform_weights
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.winograd.kernel import WinogradKernel
from tvm_fusionx.schedules.winograd.source import Source
from tvm_fusionx.schedules.winograd.tiling import Cut, Problem

INNER, OUTER = 4, 8


def _direct(data: np.ndarray, weights: np.ndarray, top: int, left: int, out: Any) -> np.ndarray:
    _, _, rows, columns, _ = out
    height, width = data.shape[2:]
    below, right = rows + 2 - top - height, columns + 2 - left - width
    padded = np.pad(data.astype("float64"), ((0, 0), (0, 0), (top, below), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nihwkl,oikl->nohw", windows, weights.astype("float64"))


def _assert_right(
    problem: Problem, cut: Cut, data: np.ndarray, weights: np.ndarray, expected: np.ndarray
) -> None:
    source = tir.decl_buffer(problem.in_shape, "float32", "source")
    wide = (
        panel_weights(weights, problem.panel)
        if problem.transforms_weights
        else transform_weights(weights, problem.filtering, problem.panel)
    )
    factors = tir.decl_buffer(wide.shape, "float32", "factors")
    target = tir.decl_buffer(problem.out_shape, "float32", "target")

    def write(*place_and_value: Any) -> Any:
        *place, value = place_and_value
        return tir.BufferStore(target, value, place)

    result = WindowResult(write, problem.panel_vectors, along_pixels=False)
    body = WinogradKernel(problem, Source(source), factors, cut, result).build(parallel=False)
    batch, chunks, height, width, _ = problem.in_shape
    blocked = data.reshape(batch, chunks, INNER, height, width).transpose(0, 1, 3, 4, 2)
    n, c, h, w, v = problem.out_shape
    wanted = expected.reshape(n, c, v, h, w).transpose(0, 1, 3, 4, 2).astype("float32")
    func = tir.PrimFunc([source, factors, target], body)
    given = [np.ascontiguousarray(blocked), wide]
    assert_kernel(func, "llvm", given, [wanted], WINOGRAD_TOLERANCE)


@pytest.mark.parametrize("tile", FILTERINGS)
@pytest.mark.parametrize("transforms_weights", [True, False])
# Chunks of a panel, and those that a vector holds: three in two lie over each other.
@pytest.mark.parametrize(("chunks", "joined"), [(2, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize(
    ("cut", "padding", "size"),
    few_fast_rows(
        [
            (Cut(3, 2, 2, 1), (0, 2), (7, 9)),
            (Cut(1, 1, 1), (1, 1), (5, 6)),
            (Cut(3, 2, 2, 1, INNER), (0, 2), (7, 9)),
            (Cut(3, 2, 2), (0, 2), (7, 9)),
            (Cut(3, 2, 2, None, INNER), (0, 2), (7, 9)),
            (Cut(4, 1, 3, 1), (2, 0), (4, 4)),
        ],
        1,
    ),
)
def test_it_is_the_direct_sum(
    tile: int,
    transforms_weights: bool,
    chunks: int,
    joined: int,
    cut: Cut,
    padding: tuple[int, int],
    size: tuple[int, int],
) -> None:
    rows, columns = size
    top, left = padding
    out = (2, 2 * chunks, rows + top - 1, columns + left - 1, OUTER)
    problem = Problem(
        FILTERINGS[tile],
        (2, 2, rows, columns, INNER),
        out,
        padding,
        chunks * OUTER,
        transforms_weights,
        joined,
    )
    generator = np.random.default_rng(0)
    data = generator.standard_normal((2, 2 * INNER, rows, columns)).astype("float32")
    weights = generator.standard_normal((2 * chunks * OUTER, 2 * INNER, 3, 3)).astype("float32")
    columns = min(cut.columns, problem.tiles)
    cut = replace(cut, tiles=min(cut.tiles, problem.tiles), columns=columns)
    _assert_right(problem, cut, data, weights, _direct(data, weights, top, left, out))
