"""Products of halves that are added to sums of float32: weights that stay halves.

A constant that a kernel multiplies again and again is widened once, when it is compiled. Where the
processor adds products of halves to sums of float32 (Arm's ``fmlal``), a window that keeps channels
apart, whose data lie in memory as halves, wants halves of its weights, too: nothing is widened.
"""

from __future__ import annotations

from typing import Any

from tvm import relay

from tvm_fusionx.ecg.block_calls import (
    is_block_call,
    operands_of,
    post_order,
    with_body,
    with_operands,
)
from tvm_fusionx.ecg.relay_constants import cast_constant
from tvm_fusionx.layout.block_operands import (
    calls_of,
    parameter_of,
    why_not_stored,
    with_weights,
)
from tvm_fusionx.layout.blocked_convolution import DEPTHWISE_BLOCKED
from tvm_fusionx.processors.cpu import Cpu

HALF, SINGLE = "float16", "float32"


def multiply_halves(function: relay.Function, cpu: Cpu) -> relay.Function:
    """Return a function of blocks whose windows over halves that keep channels apart have halves.

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
    made: dict[Any, Any] = {}
    for expr in post_order(function.body):
        changed = with_operands(expr, [made[operand] for operand in operands_of(expr)])
        if is_block_call(expr) and why_not_halves(expr, cpu) is None:
            changed = _of_halves(expr, changed)
        made[expr] = changed
    return with_body(function, made[function.body])


def why_not_halves(block_call: Any, cpu: Cpu) -> str | None:
    """Return why the weights of a block's window do not become halves, or None."""
    if not cpu.multiplies_halves:
        return "the processor does not add products of halves to floats"
    products = calls_of(block_call.op, DEPTHWISE_BLOCKED)
    if len(products) != 1:
        return f"it has {len(products)} windows that keep channels apart, not one"
    reason = why_not_stored(block_call, products[0], HALF)
    if reason is None and _weights_of(block_call, products[0]).data.dtype != SINGLE:
        return "its weights are halves"
    return reason


def _weights_of(block_call: Any, product: Any) -> Any:
    return block_call.args[list(block_call.op.params).index(parameter_of(product.args[1]))]


def _of_halves(block_call: Any, changed: Any) -> Any:
    """Return `changed`, a call of the same block, with halves for weights."""
    (product,) = calls_of(block_call.op, DEPTHWISE_BLOCKED)
    halves = cast_constant(_weights_of(block_call, product), HALF).data

    def made(data: Any, weights: Any) -> Any:
        wide = relay.cast(weights, SINGLE)
        return relay.Call(product.op, [data, wide], product.attrs, None, product.span)

    return with_weights(changed, product, halves, made)
