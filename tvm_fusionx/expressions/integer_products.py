"""Products of short integers with packed weights: their tensor expressions, and how TVM finds them.

The weights of a product are ``[N / n, K / d, n, d]``, those of a convolution
``[O / o, I / i, h, w, i / d, o, d]``: the d integers that one instruction multiplies and adds lie
side by side, as they do in the data. Where both sides are activations each of a batch has a right
side of its own, ``[B, N / n, K / d, n, d]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import te, topi
from tvm.relay.op import op as relay_op
from tvm.relay.op.op import OpPattern
from tvm.relay.op.strategy import generic, x86
from tvm.topi.utils import get_const_tuple

from tvm_fusionx._tvm.registry import register_operator
from tvm_fusionx.processors.integers import SUM
from tvm_fusionx.tir.dot_call import dot, register_dot

# Data ``[B, M, K]`` times packed columns, ``[B, M, N]``.
BATCHED = "fusionx.batched_integers"

# Types of sums: of integers, and of floats that lie in groups as integers do.
SUMS = (SUM, "float32")

# Axes of packed weights.
DENSE_WEIGHT_AXES = 4
CONVOLUTION_WEIGHT_AXES = 7


def dense_of_integers(data: Any, weights: Any, dtype: str = SUM) -> Any:
    """Return data ``[M, K]`` times packed weights as a tensor ``[M, N]`` of sums of `dtype`."""
    rows, _ = (int(extent) for extent in data.shape)
    panels, groups, width, depth = (int(extent) for extent in weights.shape)
    group = te.reduce_axis((0, groups), name="k")
    places = range(depth)
    return te.compute(
        (rows, panels * width),
        lambda m, n: te.sum(
            dot(
                [data[m, group * depth + place] for place in places],
                [weights[n // width, group, n % width, place] for place in places],
                dtype,
            ),
            axis=group,
        ),
        name="dense_of_integers",
    )


def batched_integers(data: Any, panels: Any) -> Any:
    """Return data ``[B, M, K]`` times packed columns as an int32 tensor ``[B, M, N]``."""
    batch, rows, _ = (int(extent) for extent in data.shape)
    _, count, groups, width, depth = (int(extent) for extent in panels.shape)
    group = te.reduce_axis((0, groups), name="k")
    places = range(depth)

    def total(b: Any, m: Any, n: Any) -> Any:
        return te.sum(
            dot(
                [data[b, m, group * depth + place] for place in places],
                [panels[b, n // width, group, n % width, place] for place in places],
            ),
            axis=group,
        )

    return te.compute((batch, rows, count * width), total, name="batched_integers")


def _batched_type(types: Sequence[Any], attrs: Any) -> Any:
    if not all(isinstance(each, tvm.ir.TensorType) for each in types):
        return None
    data, panels = ([int(extent) for extent in each.shape] for each in types)
    return tvm.ir.TensorType([*data[:2], panels[1] * panels[3]], SUM)


def convolution_of_integers(data: Any, weights: Any, attrs: Any, dtype: str = SUM) -> Any:
    """Return data ``[N, I / i, H, W, i]`` convolved with packed weights, as sums in NCHWc.

    Parameters
    ----------
    data, weights
        Tensors; chunks of neither lie in two groups of channels.
    attrs
        Strides, padding and dilation, as of ``nn.conv2d``.
    dtype
        That of the sums.
    """
    images, in_chunks, height, width, channels = (int(extent) for extent in data.shape)
    chunks, outer, rows, columns, groups, lanes, depth = (int(each) for each in weights.shape)
    strides, dilation = get_const_tuple(attrs.strides), get_const_tuple(attrs.dilation)
    extents = tuple(
        (size - 1) * step + 1 for size, step in zip((rows, columns), dilation, strict=True)
    )
    top, left, bottom, right = topi.nn.get_pad_tuple(get_const_tuple(attrs.padding), extents)
    padded = data
    if top or left or bottom or right:
        padded = topi.nn.pad(data, (0, 0, top, left, 0), (0, 0, bottom, right, 0), name="data_pad")
    out_rows = (height + top + bottom - extents[0]) // strides[0] + 1
    out_columns = (width + left + right - extents[1]) // strides[1] + 1
    group = te.reduce_axis((0, outer * groups), name="ic")
    row, column = (
        te.reduce_axis((0, size), name=name) for size, name in ((rows, "kh"), (columns, "kw"))
    )
    places = range(depth)
    in_group = chunks * outer // in_chunks
    # Where weights have all channels in one chunk, the data may have them in several.
    in_data = channels // depth if outer == 1 and in_chunks * channels == groups * depth else groups

    def total(n: Any, o: Any, y: Any, x: Any, lane: Any) -> Any:
        h, w = y * strides[0] + row * dilation[0], x * strides[1] + column * dilation[1]
        chunk, within = group // groups, group % groups
        read, first = (chunk, within) if in_data == groups else (group // in_data, group % in_data)
        if in_data == groups and in_chunks != outer:
            read = o // in_group * outer + chunk
        pixels = [padded[n, read, h, w, first * depth + place] for place in places]
        taps = [weights[o, chunk, row, column, within, lane, place] for place in places]
        return te.sum(dot(pixels, taps, dtype), axis=[group, row, column])

    return te.compute(
        (images, chunks, out_rows, out_columns, lanes), total, name="convolution_of_integers"
    )


def register_integer_products() -> None:
    """Give TVM's operators for packed weights these expressions on CPUs; idempotent."""
    register_dot()
    register_operator(
        BATCHED,
        {"data": "Rows of short integers.", "panels": "Columns of them, packed."},
        lambda attrs, inputs, _: [batched_integers(*inputs)],
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        type_relation=_batched_type,
        schedule=_schedule,
    )
    generic.dense_pack_strategy.register("cpu", _dense_strategy)
    generic.conv2d_NCHWc_strategy.register("cpu", _convolution_strategy)


def _dense_strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> Any:
    if out_type.dtype not in SUMS or len(inputs[1].shape) != DENSE_WEIGHT_AXES:
        return x86.dense_pack_strategy_cpu(attrs, inputs, out_type, target)
    return _strategy(
        lambda attrs, inputs, out: [dense_of_integers(inputs[0], inputs[1], str(out.dtype))],
        "dense",
    )


def _convolution_strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> Any:
    if out_type.dtype not in SUMS or len(inputs[1].shape) != CONVOLUTION_WEIGHT_AXES:
        return x86.conv2d_NCHWc_strategy_cpu(attrs, inputs, out_type, target)
    return _strategy(
        lambda attrs, inputs, out: [
            convolution_of_integers(inputs[0], inputs[1], attrs, str(out.dtype))
        ],
        "convolution",
    )


def _strategy(compute: Any, name: str) -> Any:
    chosen = relay_op.OpStrategy()
    chosen.add_implementation(compute, _schedule, name=f"tvm_fusionx.integer_{name}")
    return chosen


def _schedule(attrs: Any, outputs: Any, target: Any) -> Any:
    return te.create_schedule([output.op for output in outputs])
