"""Seeded random quantized ONNX graphs whose weights have structured zeros, beside ONNX Runtime.

Scales are powers of two and sums stay below 2^24, so that every number of a graph is exact in
float32 however it is added up: outputs are equal to the bit, or wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import tvm
from onnx import helper
from tvm import relay
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.quantized_models import on_integers
from tests.random_sparse import TARGET, Grown
from tests.schedules.sparse_blocks import pruned
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.build.phases import Phase
from tvm_fusionx.passes import PackSparse

GROUPS = (8, 16)
DENSITIES = (0.0, 0.1, 0.25, 0.5)
CHANNELS = (8, 12, 16, 24, 32, 40)
WORD = 4
# With 255 of the data and 1,000 terms, below 2^24.
LARGEST = 31
STEP = 2.0**-5


class DrawnIntegers(Grown):
    """A chain of quantized products, residuals beside some."""

    opset = 13

    def _first_shape(self) -> tuple[int, ...]:
        self.is_image = bool(self.draw.random() < 0.6)
        channels = int(self.draw.choice(CHANNELS))
        pixels = tuple(int(each) for each in self.draw.integers(3, 10, 2))
        rows = int(self.draw.choice([1, 2, 7, 30]))
        return (1, channels, *pixels) if self.is_image else (rows, channels)

    def _add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def _constant(self, array: Any, dtype: str) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array, dtype)
        return name

    def _quantized(self) -> str:
        """Return the last tensor as unsigned bytes and floats of them again."""
        zero = int(self.draw.choice([0, 100, 128]))
        # Sums are far larger than the input: a step of the same size would saturate.
        scale = 2.0 ** int(self.draw.integers(-4, 3)) if self.nodes else STEP
        given = [self._constant(scale, "float32"), self._constant(zero, "uint8")]
        levels = self._add("QuantizeLinear", self.last, *given)
        return self._add("DequantizeLinear", levels, *given)

    def _weight(self, outputs: int, inputs: int, *window: int) -> str:
        """Return a weight ``[O, I, ...]`` whose words of neighbouring inputs are zero together."""
        words, taps = inputs // WORD, int(np.prod(window))
        group, density = int(self.draw.choice(GROUPS)), float(self.draw.choice(DENSITIES))
        kept = pruned(outputs, words * taps, group, density, int(self.draw.integers(1 << 30))) != 0
        if self.draw.random() < 0.2:
            # Lists of unequal length: some groups are whole.
            kept[: outputs // 2] = True
        shape = (outputs, words, taps, WORD)
        integers = self.draw.integers(-LARGEST, LARGEST + 1, shape)
        integers *= kept.reshape(outputs, words, taps)[..., None]
        array = integers.transpose(0, 1, 3, 2).reshape(outputs, inputs, *window)
        levels = self._constant(array, "int8")
        scales = 2.0 ** self.draw.integers(-7, -4, outputs)
        given = [self._constant(scales, "float32"), self._constant(np.zeros(outputs), "int8")]
        return self._add("DequantizeLinear", levels, *given, axis=0)

    def _product(self) -> None:
        shape, data = self.shape, self._quantized()
        outputs = shape[1] if self.draw.random() < 0.4 else int(self.draw.choice(CHANNELS))
        if self.is_image:
            self._convolution(data, outputs)
        else:
            weight = self._weight(outputs, shape[1])
            self.last = self._add("Gemm", data, weight, transB=1)
            self.shape = (shape[0], outputs)
        if self.draw.random() < 0.5:
            bias = self.draw.integers(-64, 65, (outputs, *[1] * (len(shape) - 2))) * STEP
            self.last = self._add("Add", self.last, self._constant(bias, "float32"))
        if self.shape == shape and self.draw.random() < 0.7:
            self.last = self._add("Add", self.last, data)
        if self.draw.random() < 0.6:
            self.last = self._add("Relu", self.last)

    def _convolution(self, data: str, outputs: int) -> None:
        kernel = int(self.draw.choice([1, 1, 3]))
        stride, dilation = int(self.draw.choice([1, 1, 2])), int(self.draw.choice([1, 1, 2]))
        reach = (kernel - 1) * dilation + 1
        pads = [int(each) for each in self.draw.integers(0, reach // 2 + 1, 4)]
        short = max(0, reach - min(self.shape[2:]))
        pads = [max(each, short) for each in pads]
        weight = self._weight(outputs, self.shape[1], kernel, kernel)
        self.last = self._add(
            "Conv",
            data,
            weight,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            dilations=[dilation, dilation],
            pads=pads,
        )
        pixels = (
            (size + pads[axis] + pads[2 + axis] - reach) // stride + 1
            for axis, size in enumerate(self.shape[2:])
        )
        self.shape = (self.shape[0], outputs, *pixels)


def compare(seed: int) -> tuple[float, int]:
    """Compile a drawn graph with all products sparse, and of integers, that can be, and run it.

    Returns
    -------
    error
        Largest difference from ONNX Runtime, relative to its largest number (or to 1).
    count
        Sparse products of integers in the plan.
    """
    drawn = DrawnIntegers(seed)
    model = drawn.model()
    x = (np.random.default_rng(seed).standard_normal(drawn.input_shape) * 2).astype("float32")
    options = onnxruntime.SessionOptions()
    # As what it means: floats between a quantization and the next.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    (expected,) = session.run(None, {"x": x})
    target = fx.schedules.resolve_target(TARGET)
    mod, params = fx.from_onnx(model)
    order = fx.phases(target).replaced("quantized", Phase("quantized", (on_integers(target),)))
    order = order.before("layout", Phase("sparse", (PackSparse(target, least_gain=0),)))
    planned = order.sequential("integers")(bind_parameters(mod, params))
    count = _integer_products(planned)
    with fx.lowering(target):
        library = relay.build(planned, target=target)
    compiled = graph_executor.GraphModule(library["default"](tvm.cpu()))
    compiled.set_input("x", x)
    compiled.run()
    found = compiled.get_output(0).numpy()
    return float(np.abs(found - expected).max() / max(1.0, np.abs(expected).max())), count


def _integer_products(planned: Any) -> int:
    found = []

    def visit(expr: Any) -> None:
        if isinstance(expr, relay.Call) and "sparse" in str(getattr(expr.op, "name", "")):
            found.append(str(expr.checked_type.dtype))

    for function in relay.transform.InferType()(planned).functions.values():
        relay.analysis.post_order_visit(function, visit)
    return found.count("int32")
