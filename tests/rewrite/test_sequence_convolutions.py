"""Convolutions of sequences, as importers of TVM write them: pictures that are padded inside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib.graph_executor import GraphModule

import tvm_fusionx as fx
from tests.relay_modules import const, operator_names, var

CHANNELS, STEPS = 8, 21


def _gated(padding: float = 0.0) -> tvm.IRModule:
    """Return a causal, dilated layer whose halves are multiplied, and a residual sum."""
    x = var("x", 1, CHANNELS, STEPS)
    padded = relay.nn.pad(x, ((0, 0), (0, 0), (4, 0)), padding)
    whole = relay.nn.conv1d(padded, const(2 * CHANNELS, CHANNELS, 3, seed=1), dilation=2)
    halves = relay.split(whole, 2, axis=1)
    gate = relay.tanh(halves[0]) * relay.sigmoid(halves[1])
    out = relay.nn.conv1d(gate, const(CHANNELS, CHANNELS, 1, seed=2)) + x
    return tvm.IRModule.from_expr(relay.Function([x], out))


@pytest.mark.parametrize(("padding", "is_kept"), [(0.0, False), (1.0, True)])
def test_zeros_are_padded_inside(padding: float, is_kept: bool) -> None:
    rewritten = fx.passes.RewriteGraph()(_gated(padding))
    names = operator_names(rewritten["main"].body)
    assert "nn.conv1d" not in names
    assert ("nn.pad" in names) == is_kept


def _grouped() -> tvm.IRModule:
    """Return a layer of two groups, whose weights are an input."""
    x, weight = var("x", 1, CHANNELS, STEPS), var("w", 6, CHANNELS // 2, 3)
    padded = relay.nn.pad(x, ((0, 0), (0, 0), (2, 0)))
    out = relay.nn.conv1d(padded, weight, channels=6, kernel_size=3, groups=2, strides=2)
    return tvm.IRModule.from_expr(relay.Function([x, weight], out))


@pytest.mark.slow
@pytest.mark.parametrize("made", [_gated, _grouped])
def test_numbers(made: Callable[[], tvm.IRModule]) -> None:
    mod = made()
    x = np.random.default_rng(3).standard_normal((1, CHANNELS, STEPS)).astype("float32")
    weight = np.random.default_rng(4).standard_normal((6, CHANNELS // 2, 3)).astype("float32")
    outputs = []
    for built in (fx.build(mod, "llvm"), relay.build(mod, "llvm")):
        module = GraphModule(built["default"](tvm.cpu()))
        module.set_input("x", x)
        if made is _grouped:
            module.set_input("w", weight)
        module.run()
        outputs.append(module.get_output(0).numpy())
    np.testing.assert_allclose(*outputs, rtol=1e-5, atol=1e-5)
