"""Products of bfloat16: weights in groups of as many as one instruction multiplies.

Kernels widen what lies in memory as bfloat16, and compute in float32. Where the processor
multiplies matrices of bfloat16 and adds to sums of float32 (Arm's ``bfmmla``), a product whose data
lie so in memory takes numbers as they lie. Its weights become bfloat16 in groups of d: those of a
matrix product, packed in panels ``[N / n, K, n]``, ``[N / n, K / d, n, d]``; those of a
convolution, ``[O / o, I / i, h, w, i, o]``, ``[O / o, I / i, h, w, i / d, o, d]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx._tvm.arrays import numpy_of
from tvm_fusionx.ecg.block_calls import (
    is_block_call,
    operands_of,
    post_order,
    with_body,
    with_operands,
)
from tvm_fusionx.ecg.relay_constants import cast_constant
from tvm_fusionx.expressions.integer_products import register_integer_products
from tvm_fusionx.layout.block_operands import (
    calls_of,
    parameter_of,
    why_not_stored,
    with_weights,
)
from tvm_fusionx.layout.blocked_convolution import DENSE_BLOCKED
from tvm_fusionx.layout.dense import PACKED, pack_integers
from tvm_fusionx.processors.brains import BRAIN, SINGLE
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.matrix_tiles import vectors_of

# Operators with weights that are packed, and the axes of such weights of floats.
_AXES = {PACKED: 3, DENSE_BLOCKED: 6}


def multiply_brains(function: relay.Function, cpu: Cpu) -> relay.Function:
    """Return a function of blocks whose products of bfloat16 have weights in groups.

    Parameters
    ----------
    function
        Typed; its blocks are inline functions that compute in float32.
    cpu
        What the blocks are for.

    Returns
    -------
    relay.Function
        The same parameters and results; not typed.
    """
    register_integer_products()
    made: dict[Any, Any] = {}
    for expr in post_order(function.body):
        changed = with_operands(expr, [made[operand] for operand in operands_of(expr)])
        if is_block_call(expr) and why_not_brains(expr, cpu) is None:
            changed = _in_groups(expr, changed, cpu)
        made[expr] = changed
    return with_body(function, made[function.body])


def why_not_brains(block_call: Any, cpu: Cpu) -> str | None:
    """Return why a block's product is none of bfloat16, or None."""
    if cpu.brain_dot is None:
        return "the processor does not multiply matrices of bfloat16"
    products = calls_of(block_call.op, *_AXES)
    if len(products) != 1:
        return f"it has {len(products)} products with packed weights, not one"
    reason = why_not_stored(block_call, products[0], BRAIN)
    return reason or _why_no_groups(products[0], cpu)


def _why_no_groups(product: Any, cpu: Cpu) -> str | None:
    """Return why the weights of a product do not lie in groups of terms, or None."""
    assert cpu.brain_dot is not None
    depth, name = cpu.brain_dot.depth, product.op.name
    shape = [int(each) for each in product.args[1].checked_type.shape]
    if len(shape) != _AXES[name] or shape[-1] % cpu.lanes:
        return "its weights do not lie in whole vectors"
    terms = shape[1] if name == PACKED else shape[-2]
    if terms % depth:
        return f"its {terms} terms are no groups of {depth}"
    if name == DENSE_BLOCKED and int(product.attrs.groups) != 1:
        return "its channels are summed in groups"
    return None


def _in_groups(block_call: Any, changed: Any, cpu: Cpu) -> Any:
    """Return `changed`, a call of the same block, with the weights in groups."""
    (product,) = calls_of(block_call.op, *_AXES)
    place = list(block_call.op.params).index(parameter_of(product.args[1]))
    array = numpy_of(cast_constant(block_call.args[place], BRAIN).data)
    if product.op.name == PACKED:
        rows = int(np.prod([int(each) for each in product.checked_type.shape[:-1]]))
        grouped = panels_in_groups(array, rows, cpu)
    else:
        grouped = taps_in_groups(array, cpu)
    *_, groups, width, depth = grouped.shape

    def made(data: Any, weights: Any) -> Any:
        attrs, wide = product.attrs, relay.cast(weights, SINGLE)
        if product.op.name == PACKED:
            layout = f"NC{width}n{depth}c"
            return relay.nn.contrib_dense_pack(data, wide, layout, attrs.units, SINGLE)
        return relay.nn.contrib_conv2d_nchwc(
            data,
            wide,
            strides=attrs.strides,
            padding=attrs.padding,
            dilation=attrs.dilation,
            channels=attrs.channels,
            kernel_size=attrs.kernel_size,
            data_layout=attrs.data_layout,
            kernel_layout=f"OIHW{groups}i{width}o{depth}i",
            out_layout=attrs.out_layout,
            out_dtype=SINGLE,
        )

    return with_weights(changed, product, tvm.nd.array(grouped), made)


def panels_in_groups(panels: np.ndarray, rows: int, cpu: Cpu) -> np.ndarray:
    """Return weights ``[N / n, K, n]`` as ``[N / m, K / d, m, d]``, m that of the best tile.

    Parameters
    ----------
    panels
        Of any type; `cpu.brain_dot.depth` divides K, and a vector's lanes divide n.
    rows
        Of what is multiplied.
    cpu
        What runs it.
    """
    assert cpu.brain_dot is not None
    count, length, width = panels.shape
    columns = count * width
    chosen = vectors_of(rows, columns, cpu) * cpu.lanes
    by_column = panels.transpose(0, 2, 1).reshape(columns, length)
    return pack_integers(by_column, chosen, cpu.brain_dot.depth)


def taps_in_groups(weights: np.ndarray, cpu: Cpu) -> np.ndarray:
    """Return weights ``[O / o, I / i, h, w, i, o]`` as ``[O / o, I / i, h, w, i / d, o, d]``."""
    assert cpu.brain_dot is not None
    *outer, inputs, outputs = weights.shape
    depth = cpu.brain_dot.depth
    cut = weights.reshape(*outer, inputs // depth, depth, outputs)
    return np.ascontiguousarray(cut.swapaxes(-1, -2))
