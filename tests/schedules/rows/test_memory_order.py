"""Sums over a flattened image run along the axes that it has in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay, te, tir

from tests.relay_modules import REASSOCIATING, var
from tests.schedules.blocked_blocks import assert_scheduled
from tests.verified_kernels import assert_kernel
from tvm_fusionx.schedules.rows.memory_order import drop_proved_choices, sum_in_memory_order
from tvm_fusionx.tir.block import collect_blocks, describe_stage

Shape = tuple[int, ...]


def _sum_of(shape: Shape, length: int, *indices: Any, twice: Any = None) -> Any:
    """Return a function that adds up ``data[indices(k)]``, times ``data[twice(k)]``."""
    data = te.placeholder(shape, name="data")
    k = te.reduce_axis((0, length), "k")

    def term() -> Any:
        value = data[tuple(index(k) for index in indices)]
        return value if twice is None else value * data[tuple(index(k) for index in twice)]

    total = te.compute((1,), lambda _: te.sum(term(), axis=k), name="total")
    return te.create_prim_func([data, total], index_dtype_override="int64")


def _reduced(func: Any) -> Shape:
    return describe_stage(collect_blocks(func)[-1]).reduced


def _chunks(pixels: int) -> list[Any]:
    return [lambda k: k // pixels // 4, lambda k: k % pixels, lambda k: k // pixels % 4]


def test_a_flat_sum_takes_the_axes_of_what_it_reads() -> None:
    func = _sum_of((3, 7, 4), 84, *_chunks(7))
    assert _reduced(sum_in_memory_order(func)) == (3, 7, 4)
    again = _sum_of((3, 7, 4), 84, *_chunks(7), twice=_chunks(7))
    assert _reduced(sum_in_memory_order(again)) == (3, 7, 4)
    data = np.random.default_rng(0).standard_normal((3, 7, 4)).astype("float32")
    expected = data.sum(keepdims=True).reshape(1)
    assert_kernel(sum_in_memory_order(func), "llvm", [data], [expected], REASSOCIATING)


def test_axes_of_one_place_are_none() -> None:
    data = te.placeholder((3, 1, 4), name="data")
    k, unit = te.reduce_axis((0, 12), "k"), te.reduce_axis((0, 1), "unit")
    total = te.compute((1,), lambda _: te.sum(data[k // 4, unit, k % 4], axis=[k, unit]))
    func = te.create_prim_func([data, total], index_dtype_override="int64")
    assert _reduced(sum_in_memory_order(func)) == (3, 4)


@pytest.mark.parametrize(
    "func",
    [
        # A part of the tensor; every second place; places read twice; two orders in one term.
        _sum_of((4, 7, 4), 84, *_chunks(7)),
        _sum_of((168,), 84, lambda k: k * 2),
        _sum_of((42,), 84, lambda k: k // 2),
        _sum_of((42,), 84, lambda k: k % 42),
        _sum_of(
            (9, 9), 81, lambda k: k // 9, lambda k: k % 9, twice=[lambda k: k % 9, lambda k: k // 9]
        ),
        # In order already.
        _sum_of((84,), 84, lambda k: k),
    ],
    ids=["part", "strided", "doubled", "repeated", "two orders", "plain"],
)
def test_other_sums_stay_as_they_are(func: Any) -> None:
    assert sum_in_memory_order(func).same_as(func)


def test_only_conditions_that_always_hold_are_dropped() -> None:
    def padded(border: int) -> Any:
        data = te.placeholder((8,), name="data")
        return te.create_prim_func(
            [
                data,
                te.compute(
                    (8 + border,), lambda i: tir.if_then_else(tir.all(i >= 0, i < 8), data[i], 0.0)
                ),
            ]
        )

    assert "if_then_else" not in drop_proved_choices(padded(0)).script()
    assert "if_then_else" in drop_proved_choices(padded(1)).script()


@pytest.mark.parametrize("sides", [(30, 31), (5, 3)])
def test_a_norm_over_an_image_in_chunks(sides: tuple[int, int]) -> None:
    plain = relay.layout_transform(var("x", 1, 6, *sides, 8), "NCHW8c", "NCHW")
    flat = relay.reshape(plain, (1, 1, -1))
    mean = relay.mean(flat, axis=2, keepdims=True)
    spread = relay.variance(flat, 2, True, with_mean=mean)
    normed = (flat - mean) * relay.rsqrt(spread + relay.const(1e-5))
    assert_scheduled(normed, "rows", REASSOCIATING)
