"""Filters with zeros of their own: chosen where they are cheaper than lists, by the cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph, module, var
from tests.schedules.blocked_blocks import AVX512, NEON
from tests.schedules.filter_blocks import patterned, scattered
from tests.schedules.sparse_blocks import Array, Window, pruned
from tvm_fusionx.ecg import to_relay
from tvm_fusionx.expressions.sparse_filters import FILTERS
from tvm_fusionx.expressions.sparse_products import CONV2D
from tvm_fusionx.layout import pack_convolutions, pack_sparse
from tvm_fusionx.layout.sparse import Choice, break_even_density, choose
from tvm_fusionx.layout.sparse_filters import by_kernel
from tvm_fusionx.processors.cpu import Cpu

CASE = Window(1, 128, 128, 14, 14)


def _conv(weight: Array) -> relay.Expr:
    kernels = by_kernel(weight, CASE.geometry).reshape(128, 128, 3, 3)
    attrs = {"padding": (1, 1), "channels": 128, "kernel_size": (3, 3)}
    return relay.nn.conv2d(var("x", 1, 128, 14, 14), relay.const(kernels), **attrs)


def _choice(weight: Array, cpu: Cpu) -> Choice:
    found = graph(_conv(weight))
    pack_convolutions(found, cpu)
    (node,) = (each for each in found.calls() if each.op != "layout_transform")
    choice = choose(node, cpu)
    assert isinstance(choice, Choice)
    return choice


@pytest.mark.parametrize("cpu", [NEON, AVX512], ids=["NEON", "AVX512"])
@pytest.mark.parametrize("by_pattern", [False, True])
def test_zeros_of_their_own_are_left_out(by_pattern: bool, cpu: Cpu) -> None:
    weight = patterned(CASE, 0.25) if by_pattern else scattered(CASE, 0.1)
    choice = _choice(weight, cpu)
    assert choice.reason is None
    assert choice.filters is not None
    assert choice.filters.filters.kernels > 0
    assert 0.1 < break_even_density(choice, cpu) < 1
    found = graph(_conv(weight))
    pack_convolutions(found, cpu)
    assert pack_sparse(found, cpu) == 1
    assert FILTERS in [node.op for node in found.calls()]
    before, after = (module(e)["main"].ret_type for e in (_conv(weight), to_relay(found).body))
    assert before == after


def test_shared_zeros_stay_in_lists() -> None:
    found = graph(_conv(pruned(128, 1152, 16, 0.125)))
    pack_convolutions(found, AVX512)
    assert pack_sparse(found, AVX512) == 1
    assert CONV2D in [node.op for node in found.calls()]


def test_many_numbers_stay_dense() -> None:
    choice = _choice(scattered(CASE, 0.6), NEON)
    assert choice.reason is not None
    assert choice.reason.startswith("it would gain")


def test_a_weight_by_kernels() -> None:
    weight: Any = scattered(CASE, 0.5)
    g = CASE.geometry
    kernels = by_kernel(weight, g)
    apart = weight.reshape(128, g.chunks, 3, 3, g.lanes)
    assert kernels.shape == (128, 128, 9)
    assert np.array_equal(kernels[5, 2 * g.lanes + 3], apart[5, 2, :, :, 3].reshape(-1))
