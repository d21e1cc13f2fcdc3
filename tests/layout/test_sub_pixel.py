"""Transposed convolutions as ordinary ones: ONNX Runtime's numbers, and the reasons to stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib.graph_executor import GraphModule

import tvm_fusionx as fx
from tests.frontend.onnx_nodes import (
    TOLERANCE,
    Case,
    assert_close,
    by_onnxruntime,
    floats,
    model_of,
)
from tests.relay_modules import const, graph, var
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.layout.sub_pixel import why_not_sub_pixel

X = var("x", 1, 4, 6, 6)


def _transposed(weights: Any = None, **attrs: object) -> relay.Expr:
    given = {"strides": (2, 2), "channels": 8, "kernel_size": (2, 2), **attrs}
    return relay.nn.conv2d_transpose(X, weights or const(4, 8, 2, 2), **given)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (_transposed(), "None"),
        (_transposed(strides=(1, 1), padding=(1, 1)), "None"),
        (
            _transposed(var("w", 4, 8, 2, 2)),
            "its weights are not constant, or its data is not floating point",
        ),
        (
            _transposed(const(4, 4, 2, 2), groups=2),
            "it is grouped, or its result has a layout of its own",
        ),
        (_transposed(dilation=(2, 2)), "its windows are dilated"),
        (_transposed(const(2, 2, 4, 8), kernel_layout="HWIO"), "its layouts are NCHW and HWIO"),
    ],
)
def test_what_stays_says_why(body: relay.Expr, reason: str) -> None:
    assert str(why_not_sub_pixel(graph(body).calls()[0])) == reason


def _case(draw: np.random.Generator, **attributes: Any) -> Case:
    window = [int(each) for each in draw.integers(1, 6, 2)]
    strides = [int(each) for each in draw.integers(1, 5, 2)]
    pads = [int(draw.integers(0, size)) for size in window * 2]
    extra = [int(draw.integers(0, stride)) for stride in strides]
    channels, outputs = int(draw.choice([3, 8])), int(draw.choice([1, 3, 8, 16]))
    size = [int(each) for each in draw.integers(6, 10, 2)]
    told = {"strides": strides, "pads": pads, "output_padding": extra, **attributes}
    inputs = [
        floats(int(draw.integers(1, 3)), channels, *size),
        floats(channels, outputs, *window, seed=1),
        floats(outputs, seed=2),
    ]
    return Case("ConvTranspose", inputs, told, known=(1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_kernels_of_random_windows_are_right(seed: int) -> None:
    draw = np.random.default_rng(seed)
    cases = [by_onnxruntime(_case(draw)) for _ in range(5)]
    model, feeds = model_of(cases)
    mod, params = from_onnx(model)
    library = fx.build(mod, "llvm -mcpu=native", params=params)
    executor = GraphModule(library["default"](tvm.cpu()))
    for name in {param.name_hint for param in mod["main"].params}:
        executor.set_input(name, feeds[name])
    executor.run()
    for number, case in enumerate(cases):
        assert case.expected is not None
        assert_close(executor.get_output(number).numpy(), case.expected[0], str(case), TOLERANCE)


def test_weights_are_packed_when_it_is_compiled() -> None:
    body = _transposed(const(4, 8, 4, 4), padding=(1, 1), kernel_size=(4, 4))
    mod = fx.passes.PackLayouts(tvm.target.Target("llvm -mcpu=skylake-avx512"))(
        relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([X], body)))
    )
    found = str(mod["main"])
    assert "conv2d_transpose" not in found
    assert "nn.contrib_conv2d_NCHWc" in found
