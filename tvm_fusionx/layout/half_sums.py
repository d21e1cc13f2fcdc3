"""Weights of blocks whose products are summed up in halves: as halves, no sum beyond the type.

The largest half is 65,504, and a sum of products of halves may be beyond it though the result is
not. Weights are known: where the largest operand times the largest weights of a chain may reach the
end of the type, all weights of the layer are divided by a power of two, and the sums of float32
multiplied by it. So no finite operand makes a chain infinite. A chain of K products, and the
bias where it is a term, each at most rounded by 2^-11 of what is summed so far, is off by at most

    (K + 1) 2^-11 (sum of |a w| + |bias|) (1 + K 2^-11)  +  (K + 1) 2^-25 2^s,

the last where numbers are below the smallest normal half (`error_bound`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.ecg.block_calls import is_block_call, operands_of, post_order, with_operands
from tvm_fusionx.expressions.half_terms import marked, register_half_terms
from tvm_fusionx.layout.value_range import largest_of
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.tir.half_terms import Mark

CONVOLUTION = "nn.contrib_conv2d_NCHWc"
DEPTHWISE = "nn.contrib_depthwise_conv2d_NCHWc"

SINGLE, HALF = "float32", "float16"

LARGEST = float(np.finfo(HALF).max)
# Half of the distance between 1 and the next half; and between zero and the next.
UNIT, LEAST = 2.0**-11, 2.0**-25

# Weights that would be divided by more lose digits: they would be near the smallest halves.
MOST_EXPONENT = 10

# As ``tvm.relay.op.op.OpPattern.INJECTIVE``: what is above it sums, or cannot be fused.
INJECTIVE = 2

# Axes of OIHWio.
WEIGHT_AXES = 6


def error_bound(terms: int, magnitude: Any, exponent: int = 0) -> Any:
    """Return the largest error of a sum of chains in halves, before its own rounding.

    Parameters
    ----------
    terms
        Of a chain: products, and a bias where it is one of them.
    magnitude
        Sum of the products' magnitudes, and the bias's; of the whole sum, or of each.
    exponent
        Of the power of two that the weights were divided by.
    """
    relative = terms * UNIT * (1 + terms * UNIT)
    return relative * magnitude + terms * LEAST * 2.0**exponent


def sum_in_halves(function: relay.Function, cpu: Cpu, terms: int) -> relay.Function:
    """Return a function of blocks of which those that may sum up products in halves are marked.

    Parameters
    ----------
    function
        Typed; its blocks are inline functions that compute in float32.
    cpu
        What the blocks are for.
    terms
        Most products of a sum of halves.

    Returns
    -------
    relay.Function
        The same parameters and results; not typed. Weights of marked blocks are halves.
    """
    register_half_terms()
    made: dict[Any, Any] = {}
    for expr in post_order(function.body):
        operands = [made[operand] for operand in operands_of(expr)]
        made[expr] = with_operands(expr, operands)
        if is_block_call(expr):
            product = _product_of(expr, cpu, terms)
            if product is not None:
                made[expr] = _in_halves(expr, operands, product, terms)
    return relay.Function(
        function.params,
        made[function.body],
        function.ret_type,
        function.type_params,
        function.attrs,
    )


@dataclass(frozen=True)
class _Product:
    """The one product of a block, of halves and of weights."""

    call: Any
    data: int
    """Number of the parameter that is multiplied."""
    weights: int
    """Number of the parameter of weights."""


def _product_of(block_call: Any, cpu: Cpu, terms: int) -> _Product | None:
    """Return the product of a block that a template sums up in halves; None of other blocks."""
    block = block_call.op
    calls = [each for each in post_order(block.body) if isinstance(each, relay.Call)]
    products = [each for each in calls if _pattern(each) > INJECTIVE]
    if len(products) != 1 or products[0].op.name not in (CONVOLUTION, DEPTHWISE):
        return None
    (product,) = products
    numbers = {param: number for number, param in enumerate(block.params)}
    data, weights = (_parameter(each) for each in product.args)
    if data not in numbers or weights not in numbers or data.checked_type.dtype != HALF:
        return None
    constant = block_call.args[numbers[weights]]
    is_once = sum(weights in operands_of(each) for each in calls) == 1
    if not is_once or not isinstance(constant, relay.Constant):
        return None
    if not _has_template(product, weights, 2 * cpu.lanes, terms):
        return None
    return _Product(product, numbers[data], numbers[weights])


def _pattern(call: Any) -> int:
    pattern = call.op.get_attr("TOpPattern") if isinstance(call.op, tvm.ir.Op) else None
    return INJECTIVE + 1 if pattern is None else int(pattern)


def _parameter(expr: Any) -> Any:
    """Return the parameter that an operand is, or is cast from."""
    is_cast = isinstance(expr, relay.Call) and expr.op.name == "cast"
    return expr.args[0] if is_cast else expr


def _has_template(product: Any, weights: Any, lanes: int, terms: int) -> bool:
    shape = [int(each) for each in weights.checked_type.shape]
    if len(shape) != WEIGHT_AXES or shape[-1] != lanes:
        return False
    _, _, height, width, inner, _ = shape
    attrs, rows = product.attrs, int(product.checked_type.shape[2])
    if any(int(each) != 1 for each in attrs.dilation):
        return False
    if product.op.name == DEPTHWISE:
        return height * width <= terms and any(int(each) for each in attrs.padding)
    is_pixel = (height, width) == (1, 1) and all(int(each) == 1 for each in attrs.strides)
    is_whole = int(attrs.groups) == 1 and inner == lanes <= terms
    return is_pixel and is_whole and rows > 1 and not any(int(each) for each in attrs.padding)


def _in_halves(block_call: Any, operands: list[Any], product: _Product, terms: int) -> Any:
    block = block_call.op
    numbers = block_call.args[product.weights].data.numpy().astype("float64")
    addend = _largest_addend(block_call, product.call)
    largest = min(LARGEST, largest_of(block_call.args[product.data]))
    reach = largest * _heaviest(numbers, terms) * (1 + (terms + 1) * 2 * UNIT)
    exponent = max(0, math.ceil(math.log2(reach / LARGEST))) if reach > LARGEST else 0
    if exponent > MOST_EXPONENT or not np.isfinite(reach):
        return with_operands(block_call, operands)
    adds = addend is not None and 2 * addend + reach <= LARGEST
    halves = relay.const(tvm.nd.array((numbers * 2.0**-exponent).astype(HALF)))
    old = block.params[product.weights]
    new = relay.Var(old.name_hint, relay.TensorType(old.checked_type.shape, HALF))
    params = [new if each.same_as(old) else each for each in block.params]
    body = _Marked(product.call, new, Mark(terms, adds), exponent).visit(block.body)
    given = [halves if at == product.weights else each for at, each in enumerate(operands)]
    made = relay.Function(params, body, None, block.type_params, block.attrs)
    return relay.Call(made, given, block_call.attrs, None, block_call.span)


class _Marked(relay.ExprMutator):
    """Marks the weights of a product, and multiplies the result by a power of two."""

    def __init__(self, product: Any, weights: Any, mark: Mark, exponent: int) -> None:
        super().__init__()
        self.product, self.weights, self.mark, self.exponent = product, weights, mark, exponent

    def visit_call(self, call: Any) -> Any:
        """Return a call with what it takes changed."""
        if not call.same_as(self.product):
            return super().visit_call(call)
        weights = marked(relay.cast(self.weights, SINGLE), self.mark)
        made = relay.Call(call.op, [self.visit(call.args[0]), weights], call.attrs, None, call.span)
        if not self.exponent:
            return made
        return relay.multiply(made, relay.const(2.0**self.exponent, SINGLE))


def _heaviest(weights: np.ndarray, terms: int) -> float:
    """Return the largest sum of magnitudes of up to `terms` weights of one output channel."""
    chunks, _, _, _, _, lanes = weights.shape
    rows = np.moveaxis(np.abs(weights), -1, 1).reshape(chunks * lanes, -1)
    chosen = np.sort(rows, axis=1)[:, -terms:]
    return float(chosen.sum(axis=1).max())


def _largest_addend(block_call: Any, product: Any) -> float | None:
    """Return the largest magnitude of the constant that is added to a product first, or None."""
    block = block_call.op
    users = [
        each
        for each in post_order(block.body)
        if isinstance(each, relay.Call) and any(arg.same_as(product) for arg in each.args)
    ]
    if len(users) != 1 or users[0].op.name not in ("add", "nn.bias_add"):
        return None
    (other,) = (each for each in users[0].args if not each.same_as(product))
    other = _parameter(other)
    if isinstance(other, relay.Var):
        numbers = {param: number for number, param in enumerate(block.params)}
        other = block_call.args[numbers[other]] if other in numbers else other
    return largest_of(other) if isinstance(other, relay.Constant) else None
