"""Long sums of few rows: shared by the cores in parts, right in every layout and form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relay, te

from tests.relay_modules import REASSOCIATING, var
from tests.schedules.blocked_blocks import assert_scheduled
from tests.verified_kernels import assert_kernel
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.parallelism import MIN_PARALLEL_WORK
from tvm_fusionx.schedules.rows.few_rows import cut_of, parts_in, share_few_rows
from tvm_fusionx.tir.block import collect_blocks, describe_stage

TWO = Cpu(lanes=8, registers=16, cores=2)
TARGET_OF_TWO = "llvm -mcpu=x86-64-v3 -num-cores=2"


def _sum(*shape: int, rows: int = 1) -> te.PrimFunc:
    data = te.placeholder((rows, *shape), name="data")
    axes = [te.reduce_axis((0, extent), f"k{at}") for at, extent in enumerate(shape)]
    total = te.compute((rows,), lambda i: te.sum(data[(i, *axes)], axis=axes), name="total")
    return te.create_prim_func([data, total], index_dtype_override="int64")


def _cut(func: te.PrimFunc, cpu: Cpu = TWO) -> tuple[int, int] | None:
    stage = describe_stage(collect_blocks(func)[-1])
    found = cut_of(stage, cpu, MIN_PARALLEL_WORK)
    return None if found is None else (found[0].extent, found[1])


@pytest.mark.parametrize(
    ("shape", "cut"),
    [
        ((96, 80, 80), (96, 8)),
        ((12, 80, 80, 8), (12, 12)),
        # The outermost that parts divide.
        ((17, 60, 70), (60, 10)),
        ((3, 90, 200), (90, 9)),
        ((65536,), (65536, 8)),
        ((97, 89, 7), None),
        ((80, 80), None),
    ],
    ids=str,
)
def test_the_outermost_axis_is_cut(shape: tuple[int, ...], cut: tuple[int, int] | None) -> None:
    assert _cut(_sum(*shape)) == cut


def test_rows_enough_for_the_cores_are_not_cut() -> None:
    assert _cut(_sum(96, 80, 80, rows=2)) is None
    assert _cut(_sum(96, 80, 80, rows=2), Cpu(lanes=8, registers=16, cores=8)) == (96, 16)
    assert _cut(_sum(96, 80, 80), Cpu(lanes=8, registers=16, cores=1)) is None


@pytest.mark.parametrize("shape", [(12, 60, 80), (7, 64, 128), (65536,)], ids=str)
def test_every_element_counts_once(shape: tuple[int, ...]) -> None:
    func = share_few_rows(_sum(*shape), TWO, MIN_PARALLEL_WORK)
    assert parts_in(func) == {"total_parts"}
    data = np.random.default_rng(0).integers(0, 9, (1, *shape)).astype("float32")
    assert_kernel(func, "llvm", [data], [data.reshape(1, -1).sum(axis=1)], 0.0)


def _by_variance(x: Any, axes: list[int]) -> Any:
    mean = relay.mean(x, axes, True)
    return x - mean, relay.variance(x, axes, True, with_mean=mean)


def _in_two_passes(x: Any, axes: list[int]) -> Any:
    centred = x - relay.mean(x, axes, True)
    return centred, relay.mean(centred * centred, axes, True)


def _of_squares(x: Any, axes: list[int]) -> Any:
    mean = relay.mean(x, axes, True)
    return x - mean, relay.mean(x * x, axes, True) - mean * mean


@pytest.mark.parametrize("form", [_by_variance, _in_two_passes, _of_squares])
@pytest.mark.parametrize("shape", [(1, 8, 80, 90), (1, 8, 20, 50, 8)], ids=["planes", "chunks"])
def test_a_norm_over_a_whole_image(
    form: Callable[[Any, list[int]], Any], shape: tuple[int, ...]
) -> None:
    x = var("x", *shape)
    centred, variance = form(x, list(range(1, len(shape))))
    norm = centred / relay.sqrt(variance + relay.const(1e-5))
    assert_scheduled(norm, "rows", REASSOCIATING, target=TARGET_OF_TWO)
