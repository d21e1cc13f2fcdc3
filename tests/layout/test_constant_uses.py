from __future__ import annotations

import math

import numpy as np
import pytest
from tvm import relay

from tests.passes.assert_pass import block
from tests.relay_modules import const, module, var
from tvm_fusionx.layout.constant_uses import most_narrow_uses, uses_of
from tvm_fusionx.schedules import resolve_target


def _typed(function: relay.Function) -> relay.Function:
    return module(function.body, params=list(function.params))["main"]


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_a_weight_is_used_once_for_each_row(rows: int) -> None:
    p, q = var("p", rows, 16), var("q", 24, 16)
    made = _typed(block("product", [p, q], relay.nn.dense(p, q)))
    assert uses_of(const(24, 16), made) == pytest.approx(rows)


def test_a_weight_of_a_convolution_is_used_once_for_each_pixel() -> None:
    p, q = var("p", 1, 8, 10, 10), var("q", 4, 8, 3, 3)
    made = _typed(block("window", [p, q], relay.nn.conv2d(p, q, padding=(1, 1))))
    assert uses_of(const(4, 8, 3, 3), made) == pytest.approx(100)


def test_what_is_never_multiplied_is_used_once() -> None:
    p, q = var("p", 4, 16), var("q", 4, 16)
    assert uses_of(const(4, 16), _typed(block("moved", [p, q], relay.reshape(q, (64,))))) == 1
    assert uses_of(relay.const(np.zeros((0, 4), "float32")), _typed(block("b", [p], p))) >= 1


def test_what_is_no_graph_is_taken_to_be_used_once() -> None:
    p, bound = var("p", 64), var("bound", 64)
    outer = _typed(block("outer", [p], relay.Let(bound, relay.nn.relu(p), relay.sum(bound))))
    assert uses_of(const(1), outer) == 1


def test_a_gpu_converts_while_it_loads_however_often() -> None:
    assert most_narrow_uses(resolve_target("opencl")) == math.inf
    assert 1 < most_narrow_uses(resolve_target("llvm")) < math.inf
