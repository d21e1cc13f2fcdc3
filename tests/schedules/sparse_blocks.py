"""Blocks around sparse products, and what they compute, by numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from tests.relay_modules import var
from tvm_fusionx.expressions.sparse_products import (
    CONV2D,
    CONV2D_ATTRIBUTES,
    DENSE,
    DENSE_ATTRIBUTES,
    PLANES,
    Geometry,
    depth_of,
    register_sparse_products,
)
from tvm_fusionx.processors.integers import SUM, DotInstruction
from tvm_fusionx.sparse import Storage, as_words, find_lists, store_lists

Array = np.ndarray[Any, Any]
Post = Callable[[Any], Any]


def pruned(rows: int, columns: int, group: int, density: float, seed: int = 0) -> Array:
    """Return a random weight ``[rows, columns]``: each group of rows keeps columns of its own."""
    draw = np.random.default_rng(seed)
    weight = draw.standard_normal((rows, columns)).astype("float32")
    for first in range(0, rows, group):
        weight[first : first + group, draw.random(columns) >= density] = 0
    return weight


def dense(rows: int, weight: Array, width: int, lanes: int, post: Post = lambda y: y) -> Any:
    """Return Relay of data ``x`` ``[rows, K]`` times a weight ``[O, K]``, and its storage."""
    register_sparse_products()
    stored = store_lists(weight, find_lists(weight, width), lanes)
    attrs = tvm.ir.make_node(DENSE_ATTRIBUTES, units=weight.shape[0], out_dtype="float32")
    operands = [var("x", rows, weight.shape[1]), *_operands(stored)]
    return post(relay.Call(relay.op.get(DENSE), operands, attrs)), stored


@dataclass(frozen=True)
class Window:
    """A convolution: images, input and output channels, and windows."""

    images: int
    inputs: int
    outputs: int
    height: int
    width: int
    kernel: int = 3
    stride: int = 1
    dilation: int = 1
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)
    lanes: int = 8
    """Channels of a chunk, of data and result."""
    planar: bool = False
    """Whether offsets are those of planes, as GPUs have them."""

    @property
    def geometry(self) -> Geometry:
        """As operators have it."""
        return Geometry(
            self.inputs // self.lanes,
            self.height,
            self.width,
            self.lanes,
            (self.kernel,) * 2,
            (self.stride,) * 2,
            (self.dilation,) * 2,
            self.padding,
            self.planar,
        )

    @property
    def columns(self) -> int:
        """Of the weight as a matrix, chunk by chunk."""
        return self.inputs * self.kernel**2

    def image(self, seed: int = 1) -> Array:
        """Return a random image in chunks."""
        shape = (self.images, self.inputs // self.lanes, self.height, self.width, self.lanes)
        return np.random.default_rng(seed).standard_normal(shape).astype("float32")

    def expected(self, x: Array, weight: Array) -> Array:
        """Return the convolution by numpy, in chunks."""
        g = self.geometry
        top, left, bottom, right = g.padding
        padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right), (0, 0))).astype("float64")
        rows, columns = g.result
        taps = weight.reshape(self.outputs, g.chunks, *g.kernel, g.lanes).astype("float64")
        found = np.zeros((self.images, self.outputs, rows, columns))
        for dy in range(self.kernel):
            for dx in range(self.kernel):
                y, z = dy * self.dilation, dx * self.dilation
                part = padded[
                    :,
                    :,
                    y : y + (rows - 1) * self.stride + 1 : self.stride,
                    z : z + (columns - 1) * self.stride + 1 : self.stride,
                ]
                found += np.einsum("ncyxl,ocl->noyx", part, taps[:, :, dy, dx])
        block = self.outputs // self.lanes
        cut = found.reshape(self.images, block, self.lanes, rows, columns)
        return cut.transpose(0, 1, 3, 4, 2).astype("float32")


def window_attributes(case: Window, kernel_layout: str, dtype: str = "float32") -> Any:
    """Return the attributes of windows whose result has a type."""
    g = case.geometry
    return tvm.ir.make_node(
        CONV2D_ATTRIBUTES,
        strides=list(g.strides),
        padding=list(g.padding),
        dilation=list(g.dilation),
        groups=1,
        channels=case.outputs,
        kernel_size=list(g.kernel),
        data_layout=f"NCHW{case.lanes}c",
        kernel_layout=kernel_layout,
        out_layout=f"NCHW{case.lanes}c",
        out_dtype=dtype,
    )


def run_plainly(body: Any, arrays: dict[str, Any]) -> Any:
    """Return what TVM computes of Relay without a template or a pass of ours."""
    func = relay.Function(relay.analysis.free_vars(body), body)
    with tvm.transform.PassContext(opt_level=0):
        lib = relay.build(tvm.IRModule.from_expr(func), target="llvm")
    model = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    for name, array in arrays.items():
        model.set_input(name, array)
    model.run()
    return model.get_output(0).numpy()


def window(
    case: Window, weight: Array, width: int, lanes: int, post: Post = lambda y: y, data: Any = None
) -> Any:
    """Return Relay of windows over an image ``x``, and the weight's storage."""
    register_sparse_products()
    g, depth = case.geometry, depth_of(weight.dtype)
    lists = find_lists(as_words(weight, depth), width)
    stored = store_lists(weight, lists, lanes, g.in_words(depth).offsets(), depth)
    attrs = window_attributes(
        case, PLANES if case.planar else "OIHW", "float32" if depth == 1 else SUM
    )
    x = var("x", case.images, g.chunks, case.height, case.width, g.lanes) if data is None else data
    return post(relay.Call(relay.op.get(CONV2D), [x, *_operands(stored)], attrs)), stored


def _operands(stored: Storage) -> list[Any]:
    return [
        var("values", *stored.values.shape, dtype=str(stored.values.dtype)),
        var("index", *stored.index.shape, dtype="int32"),
    ]


def integer_weight(outputs: int, words: int, dot: DotInstruction, density: float) -> Array:
    """Return a random weight whose words are zero in groups of 8 outputs."""
    kept = pruned(outputs, words, 8, density) != 0
    shape = (outputs, words, dot.depth)
    integers = np.random.default_rng(4).integers(-127, 128, shape) * kept[..., None]
    return integers.reshape(outputs, -1).astype(dot.weights)


def integers_of(dot: DotInstruction, *shape: int) -> Array:
    """Return random data as an instruction takes it."""
    low, high = (0, 256) if dot.data == "uint8" else (-128, 128)
    return np.random.default_rng(5).integers(low, high, shape).astype(dot.data)


def dense_of_integers(
    rows: int, weight: Array, width: int, lanes: int, dot: DotInstruction, post: Post
) -> Any:
    """Return Relay of integers ``x`` ``[rows, K]`` times a weight, and its storage."""
    register_sparse_products()
    lists = find_lists(as_words(weight, dot.depth), width)
    stored = store_lists(weight, lists, lanes, depth=dot.depth)
    attrs = tvm.ir.make_node(DENSE_ATTRIBUTES, units=weight.shape[0], out_dtype=SUM)
    x = var("x", rows, weight.shape[1], dtype=dot.data)
    operands = [x, *_operands(stored)]
    return post(relay.Call(relay.op.get(DENSE), operands, attrs)), stored


def case(rows: int, outputs: int, length: int, width: int, lanes: int) -> tuple[Any, Any]:
    """Return a product whose weight is constant, and the same by an operator of TVM's own."""
    register_sparse_products()
    weight = pruned(outputs, length, width, 0.4)
    stored = store_lists(weight, find_lists(weight, width), lanes)
    attrs = tvm.ir.make_node(DENSE_ATTRIBUTES, units=outputs, out_dtype="float32")
    x = var("x", rows, length)
    constants = [relay.const(stored.values), relay.const(stored.index)]
    sparse = relay.Call(relay.op.get(DENSE), [x, *constants], attrs)
    return relay.nn.relu(sparse), relay.nn.relu(relay.nn.dense(x, relay.const(weight)))
