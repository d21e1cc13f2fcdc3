"""Seeded random ONNX graphs whose weights have structured zeros, and their numbers beside ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.schedules.sparse_blocks import pruned
from tvm_fusionx.passes import PackSparse

Array = np.ndarray[Any, Any]

TARGET = "llvm -mcpu=native"
GROUPS = (1, 4, 8, 16)
DENSITIES = (0.0, 0.1, 0.25, 0.5)
CHANNELS = (4, 8, 12, 16, 24, 32, 40)
ACTIVATIONS = ("Relu", "Sigmoid", "HardSwish", None)


class Grown:
    """A graph as it grows from its input ``x``: a chain of products.

    Parameters
    ----------
    seed
        Decides everything.
    """

    opset: int
    shape: tuple[int, ...]
    """Of the last tensor."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.last = "x"
        self.shape = self._first_shape()
        self.input_shape = self.shape
        for _ in range(int(self.draw.integers(1, 4))):
            self._product()

    def _first_shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    def _product(self) -> None:
        raise NotImplementedError

    def model(self) -> onnx.ModelProto:
        """Return the graph."""
        made = helper.make_graph(
            self.nodes,
            "pruned",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.input_shape)],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 8
        return model


class Drawn(Grown):
    """A chain of products of floats, residuals beside some."""

    opset = 14

    def _first_shape(self) -> tuple[int, ...]:
        self.axes = int(self.draw.choice([0, 2, 2, 3]))
        channels = int(self.draw.choice(CHANNELS))
        if not self.axes:
            return int(self.draw.choice([1, 1, 2, 7, 30])), channels
        pixels = self.draw.integers(3, 12 if self.axes == 2 else 6, self.axes)
        return (int(self.draw.integers(1, 3)), channels, *map(int, pixels))

    def _weight(self, rows: int, columns: int) -> Array:
        weight = pruned(
            rows,
            columns,
            int(self.draw.choice(GROUPS)),
            float(self.draw.choice(DENSITIES)),
            int(self.draw.integers(1 << 30)),
        )
        if self.draw.random() < 0.2:
            # Lists of unequal length: some groups are whole.
            weight[: rows // 2] = self.draw.standard_normal((rows // 2, columns))
        return weight / np.float32(np.sqrt(columns))

    def _add(self, op: str, *inputs: str, **attributes: Any) -> None:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.last, *inputs], [name], **attributes))
        self.last = name

    def _constant(self, array: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array.astype("float32")
        return name

    def _product(self) -> None:
        before, shape = self.last, self.shape
        outputs = shape[1] if self.draw.random() < 0.3 else int(self.draw.choice(CHANNELS))
        if self.axes:
            self._convolution(outputs)
        else:
            self._add("MatMul", self._constant(self._weight(outputs, shape[1]).T))
            self.shape = (shape[0], outputs)
        if self.draw.random() < 0.5:
            bias = self.draw.standard_normal((outputs, *[1] * self.axes))
            self._add("Add", self._constant(bias))
        if self.shape == shape and self.draw.random() < 0.7:
            self._add("Add", before)
        activation = self.draw.choice(np.asarray(ACTIVATIONS, object))
        if activation is not None:
            self._add(str(activation))

    def _convolution(self, outputs: int) -> None:
        shape, axes = self.shape, self.axes
        kernel = int(self.draw.choice([1, 1, 3, 3, 5]))
        stride, dilation = int(self.draw.choice([1, 1, 2])), int(self.draw.choice([1, 1, 2]))
        reach = (kernel - 1) * dilation + 1
        pads = [int(each) for each in self.draw.integers(0, reach // 2 + 1, 2 * axes)]
        short = max(0, reach - min(shape[2:]))
        pads = [max(each, short) for each in pads]
        weight = self._weight(outputs, shape[1] * kernel**axes)
        weight = weight.reshape(outputs, shape[1], *[kernel] * axes)
        self._add(
            "Conv",
            self._constant(weight),
            kernel_shape=[kernel] * axes,
            strides=[stride] * axes,
            dilations=[dilation] * axes,
            pads=pads,
        )
        pixels = (
            (size + pads[axis] + pads[axes + axis] - reach) // stride + 1
            for axis, size in enumerate(shape[2:])
        )
        self.shape = (shape[0], outputs, *pixels)


def compare(seed: int, target_string: str = TARGET) -> tuple[float, int]:
    """Compile a drawn graph with all products sparse that can be, and run it.

    Parameters
    ----------
    seed
        Decides the graph.
    target_string
        This machine's processor, or ``opencl``.

    Returns
    -------
    error
        Largest difference from ONNX Runtime, relative to its largest number (or to 1).
    count
        Sparse products in the plan.
    """
    drawn = Drawn(seed)
    model = drawn.model()
    x = np.random.default_rng(seed).standard_normal(drawn.input_shape).astype("float32")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": x})
    target = fx.schedules.resolve_target(target_string)
    mod, params = fx.from_onnx(model)
    bound = tvm.IRModule.from_expr(
        tvm.relay.build_module.bind_params_by_name(mod["main"], dict(params))
    )
    order = fx.pipeline(target, before={"layout": PackSparse(target, least_gain=0)})
    planned = order(bound)
    count = planned.astext(show_meta_data=False).count("fusionx.sparse_")
    with fx.lowering(target):
        library = tvm.relay.build(planned, target=target)
    compiled = graph_executor.GraphModule(library["default"](tvm.device(target.kind.name)))
    compiled.set_input("x", x)
    compiled.run()
    found = compiled.get_output(0).numpy()
    return float(np.abs(found - expected).max() / max(1.0, np.abs(expected).max())), count
