"""Weights alone in 8 or 4 bits: products of one row read little else than their weights.

Each block of inputs of an output channel has a scale, so that one large weight spoils only its own
block. The model computes in float. Two forms: ONNX's own ``DequantizeLinear`` with blocks, from
opset 21 on, and ONNX Runtime's ``MatMulNBits``, which knows no opset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvm_fusionx.compress.quantize.affine import LEAST_SCALE
from tvm_fusionx.compress.quantize.model_graph import ModelGraph, drop_unread
from tvm_fusionx.compress.quantize.prepare import LEAST_OPSET, prepared_graph
from tvm_fusionx.compress.quantize.units import LAYER, Unit, find_units
from tvm_fusionx.errors import InputError, ModelError
from tvm_fusionx.frontend.read_model import ModelSource

DEQUANTIZE, MATMUL_N_BITS = "DequantizeLinear", "MatMulNBits"
FORMS = (DEQUANTIZE, MATMUL_N_BITS)
# The first opset with blocks and with int4.
BLOCKED_OPSET = 21
MICROSOFT = "com.microsoft"

BLOCKS = (32, 64, 128)
BITS = (4, 8)
MATRIX_OPS = ("MatMul", "Gemm")


def quantize_weights(
    model: ModelSource, bits: int = 4, *, block: int = 32, form: str = DEQUANTIZE
) -> Any:
    """Return a model whose matrix products have weights of `bits` bits and a scale a block.

    Parameters
    ----------
    model
        ONNX file, its bytes, or a loaded model, in float32.
    bits
        4 or 8.
    block
        32, 64 or 128 inputs of an output channel that share a scale.
    form
        ``"DequantizeLinear"`` (the model's opset becomes 21 where it is older) or
        ``"MatMulNBits"``.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    InputError
        `bits`, `block` or `form` is none of these.
    ModelError
        The model has no matrix product with constant weights, or its opset cannot be converted.
    """
    for name, value, allowed in (("bits", bits, BITS), ("block", block, BLOCKS)):
        if value not in allowed:
            raise _refused(name, value, allowed)
    if form not in FORMS:
        raise _refused("form", form, FORMS)
    graph = prepared_graph(model, BLOCKED_OPSET if form == DEQUANTIZE else LEAST_OPSET)
    layers = [unit for unit in find_units(graph) if unit.kind == LAYER and unit.op in MATRIX_OPS]
    if form == MATMUL_N_BITS:
        # It has no bias of its own shape and no transposition.
        layers = [unit for unit in layers if unit.op == "MatMul"]
    if not layers:
        raise ModelError(
            f"model {graph.model.graph.name!r}",
            expected="matrix products with constant weights",
            found="none",
            next_step="Its weights stay; fx.quantize quantises convolutions.",
        )
    written = onnx.ModelProto()
    written.CopyFrom(graph.model)
    write = _write_dequantized if form == DEQUANTIZE else _write_packed
    for unit in layers:
        write(graph, written, unit, bits, block)
    if form == MATMUL_N_BITS and all(o.domain != MICROSOFT for o in written.opset_import):
        written.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    drop_unread(written)
    return written


def _refused(name: str, value: object, allowed: tuple[Any, ...]) -> InputError:
    return InputError(
        name,
        expected=f"one of {', '.join(map(str, allowed))}",
        found=repr(value),
        next_step="Leave it out for the usual one.",
    )


def blocked(weights: np.ndarray, bits: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Return symmetric integers and scales of a matrix ``(inputs, outputs)``.

    Returns
    -------
    integers
        ``(inputs, outputs)`` int8, from ``-2**(bits - 1)`` to ``2**(bits - 1) - 1``.
    scales
        ``(blocks, outputs)`` float32. The largest weight of a block, with its sign, is the lowest
        integer: there is one more of those.
    """
    inputs, outputs = weights.shape
    blocks = -(-inputs // block)
    padded = np.zeros((blocks * block, outputs), np.float32)
    padded[:inputs] = weights
    grouped = padded.reshape(blocks, block, outputs)
    places = np.abs(grouped).argmax(axis=1)
    largest = np.take_along_axis(grouped, places[:, None, :], axis=1)[:, 0, :]
    least = -(1 << (bits - 1))
    scales = (largest / np.float32(least)).astype(np.float32)
    scales = np.where(np.abs(scales) < LEAST_SCALE, np.float32(LEAST_SCALE), scales)
    steps = np.clip(np.rint(grouped / scales[:, None, :]), least, -least - 1)
    integers = steps.reshape(-1, outputs)[:inputs].astype(np.int8)
    return integers, scales


def _matrix(graph: ModelGraph, node: Any, unit: Unit) -> np.ndarray:
    weights = graph.array(node.input[1])
    assert weights is not None
    return weights if unit.axis == 1 else weights.T


def _node(graph: ModelGraph, name: str) -> Any:
    return next(node for node in graph.nodes if node.name == name)


def _write_dequantized(graph: ModelGraph, model: Any, unit: Unit, bits: int, block: int) -> None:
    integers, scales = blocked(_matrix(graph, _node(graph, unit.name), unit), bits, block)
    axis = 0 if unit.axis == 1 else 1
    if axis == 1:
        integers, scales = integers.T, scales.T
    names = [f"{unit.name}.weights", f"{unit.name}.weights.scale"]
    kind = TensorProto.INT4 if bits == BITS[0] else TensorProto.INT8
    model.graph.initializer.append(_tensor(names[0], kind, integers))
    model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(scales), names[1]))
    made = f"{unit.name}.weights.dequantized"
    node = next(each for each in model.graph.node if each.name == unit.name)
    place = list(model.graph.node).index(node)
    node.input[1] = made
    model.graph.node.insert(
        place,
        helper.make_node(DEQUANTIZE, names, [made], name=made, axis=axis, block_size=block),
    )


def _tensor(name: str, kind: int, integers: np.ndarray) -> Any:
    """Return a tensor of int8, or of int4, two in a byte, the first in the low half."""
    flat = np.ascontiguousarray(integers).reshape(-1)
    if kind == TensorProto.INT8:
        return numpy_helper.from_array(flat.reshape(integers.shape), name)
    halves = np.append(flat, np.zeros(len(flat) % 2, np.int8)).astype(np.uint8) & 0xF
    packed = (halves[0::2] | (halves[1::2] << 4)).tobytes()
    return helper.make_tensor(name, kind, integers.shape, packed, raw=True)


def _write_packed(graph: ModelGraph, model: Any, unit: Unit, bits: int, block: int) -> None:
    """Replace a ``MatMul``: its weights lie by output, block and input, unsigned."""
    weights = _matrix(graph, _node(graph, unit.name), unit)
    inputs, outputs = weights.shape
    integers, scales = blocked(weights, bits, block)
    blocks = len(scales)
    # Without zero points the middle of the unsigned range stands for zero.
    levels = np.full((blocks * block, outputs), 1 << (bits - 1), np.uint8)
    levels[:inputs] = (integers.astype(np.int16) + (1 << (bits - 1))).astype(np.uint8)
    rows = levels.T.reshape(outputs, blocks, block)
    packed = rows if bits == BITS[1] else rows[..., 0::2] | (rows[..., 1::2] << 4)
    names = [f"{unit.name}.weights", f"{unit.name}.weights.scale"]
    arrays = np.ascontiguousarray(packed), np.ascontiguousarray(scales.T).reshape(-1)
    for name, array in zip(names, arrays, strict=True):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    node = next(each for each in model.graph.node if each.name == unit.name)
    sizes = {"K": inputs, "N": outputs, "bits": bits, "block_size": block}
    node.CopyFrom(
        helper.make_node(
            MATMUL_N_BITS,
            [node.input[0], *names],
            list(node.output),
            name=node.name,
            domain=MICROSOFT,
            **sizes,
        )
    )
