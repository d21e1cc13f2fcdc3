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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.ecg.block_calls import (
    is_block_call,
    operands_of,
    post_order,
    with_body,
    with_operands,
)
from tvm_fusionx.ecg.to_relay import BLOCK_NAME, BLOCK_NODES
from tvm_fusionx.expressions.half_terms import marked, register_half_terms
from tvm_fusionx.layout.value_range import Range, ValueRanges, largest_in
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.tir.half_terms import Mark, longest_chain

CONVOLUTION = "nn.contrib_conv2d_NCHWc"
MATRIX = "nn.contrib_dense_pack"
DEPTHWISE = "nn.contrib_depthwise_conv2d_NCHWc"

SINGLE, HALF = "float32", "float16"

LARGEST = float(np.finfo(HALF).max)
# Half of the distance between 1 and the next half; and between zero and the next.
UNIT, LEAST = 2.0**-11, 2.0**-25

# Weights that would be divided by more lose digits: they would be near the smallest halves.
MOST_EXPONENT = 10

PRODUCTS = (CONVOLUTION, DEPTHWISE, MATRIX)

# As ``tvm.relay.op.op.OpPattern`` has them: what is above injective sums, or cannot be fused.
INJECTIVE, REDUCTION = 2, 3

# Of windows that templates read in place: channels of an image, and columns that are written out.
MOST_IMAGE_CHANNELS, MOST_COLUMNS = 4, 7

# Name of a block that rounds an image.
ROUNDED = "image_in_halves"

# Axes of OIHWio, and of panels of columns.
WEIGHT_AXES, PANEL_AXES = 6, 3


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


def sum_in_halves(
    function: relay.Function, cpu: Cpu, terms: int, matrix_terms: int
) -> relay.Function:
    """Return a function of blocks of which those that may sum up products in halves are marked.

    Parameters
    ----------
    function
        Typed; its blocks are inline functions that compute in float32.
    cpu
        What the blocks are for.
    terms, matrix_terms
        Most products of a sum of halves: of a convolution, and of a matrix product.

    Returns
    -------
    relay.Function
        The same parameters and results; not typed. Weights of marked blocks are halves.
    """
    register_half_terms()
    made: dict[Any, Any] = {}
    ranges = ValueRanges()
    for expr in post_order(function.body):
        operands = [made[operand] for operand in operands_of(expr)]
        made[expr] = with_operands(expr, operands)
        if is_block_call(expr):
            for product in _products_of(expr, ranges.add(expr), cpu, (terms, matrix_terms)):
                made[expr] = _in_halves(made[expr], product)
    return with_body(function, made[function.body])


@dataclass(frozen=True)
class _Product:
    """A product of halves and of weights in a block."""

    place: int
    """Its number among the block's products."""
    terms: int
    """Most products of a sum of halves."""
    weights: int
    """Number of the parameter of weights."""
    numbers: np.ndarray
    """The weights."""
    largest: float
    """Largest magnitude of what is multiplied."""
    addend: float | None
    """Largest magnitude of the constant that is added first; None where there is none."""
    saturates: bool
    """Whether what is multiplied may be beyond the halves that a kernel keeps it in."""
    image: int | None
    """Number of the parameter that is an image of float32, which is rounded before."""


def _products_of(
    block_call: Any, within: Mapping[Any, Range], cpu: Cpu, most_terms: tuple[int, int]
) -> list[_Product]:
    """Return the products of a block that a template sums up in halves; none of other blocks.

    Their sums have no more terms than `most_terms` tells of convolutions and of matrix products.
    They are one, of halves in memory, or two, the second of pixels that the first gives.
    """
    block = block_call.op
    calls = [each for each in post_order(block.body) if isinstance(each, relay.Call)]
    sums = [each for each in calls if _pattern(each) > INJECTIVE]
    # What reduces the rows of a matrix product comes behind it.
    is_matrix = bool(sums) and getattr(sums[0].op, "name", "") == MATRIX
    products = [each for each in sums if not is_matrix or _pattern(each) > REDUCTION]
    names = [getattr(each.op, "name", "") for each in products]
    if names not in ([CONVOLUTION], [DEPTHWISE], [DEPTHWISE, CONVOLUTION], [MATRIX]):
        return []
    terms = most_terms[is_matrix]
    operands = {param: given for param, given in zip(block.params, block_call.args, strict=True)}
    data = _parameter(products[0].args[0])
    image = _image_of(products[0], calls)
    if data not in operands or (data.checked_type.dtype != HALF and image is None):
        return []
    found = []
    for place, product in enumerate(products):
        weights = _parameter(product.args[1])
        is_once = sum(weights in operands_of(each) for each in calls) == 1
        constant = operands.get(weights)
        if not is_once or not isinstance(constant, relay.Constant):
            return []
        if not _has_template(product, weights, 2 * cpu.lanes, terms):
            return []
        largest = largest_in(within[product.args[0]])
        found.append(
            _Product(
                place,
                terms,
                list(block.params).index(weights),
                constant.data.numpy().astype("float64"),
                min(LARGEST, largest),
                _largest_addend(operands, product, calls, within),
                place > 0 and largest > LARGEST,
                None if image is None else list(block.params).index(image),
            )
        )
    exponents = [_exponent_of(each) for each in found]
    return found if all(each is not None for each in exponents) else []


def _image_of(product: Any, calls: list[Any]) -> Any | None:
    """Return the image of float32 that a window, and nothing else, reads as it is; None if none."""
    data = product.args[0]
    is_read = isinstance(data, relay.Var) and data.checked_type.dtype == SINGLE
    if product.op.name != CONVOLUTION or not is_read or int(data.checked_type.shape[-1]) != 1:
        return None
    return data if sum(data in operands_of(each) for each in calls) == 1 else None


def _pattern(call: Any) -> int:
    pattern = call.op.get_attr("TOpPattern") if isinstance(call.op, tvm.ir.Op) else None
    return INJECTIVE + 1 if pattern is None else int(pattern)


def _parameter(expr: Any) -> Any:
    """Return the parameter that an operand is, or is cast from."""
    is_cast = isinstance(expr, relay.Call) and expr.op.name == "cast"
    return expr.args[0] if is_cast else expr


def _has_template(product: Any, weights: Any, lanes: int, terms: int) -> bool:
    shape = [int(each) for each in weights.checked_type.shape]
    if product.op.name == MATRIX:
        is_panel = len(shape) == PANEL_AXES and shape[-1] % lanes == 0
        return is_panel and longest_chain(shape[1], terms) >= lanes
    if len(shape) != WEIGHT_AXES or shape[-1] != lanes:
        return False
    _, chunks, height, width, inner, _ = shape
    attrs, rows = product.attrs, int(product.checked_type.shape[2])
    if product.op.name == DEPTHWISE:
        is_strip = height * width <= terms and any(int(each) for each in attrs.padding)
        return is_strip and all(int(each) == 1 for each in attrs.dilation)
    if int(attrs.groups) != 1 or width > MOST_COLUMNS:
        return False
    if inner == 1:
        return chunks <= MOST_IMAGE_CHANNELS and height * width > 1 and width <= terms
    is_pixel = (height, width) == (1, 1)
    if is_pixel and (rows == 1 or any(int(each) for each in attrs.padding)):
        return False
    return inner == lanes <= terms


def _reach_of(product: _Product) -> float:
    """Return what no chain of a product exceeds, the rounding of its sums included."""
    rounded = 1 + (product.terms + 1) * 2 * UNIT
    return product.largest * _heaviest(product.numbers, product.terms) * rounded


def _exponent_of(product: _Product) -> int | None:
    """Return the power of two that weights are divided by; None where they stay single."""
    reach = _reach_of(product)
    if not math.isfinite(reach):
        return None
    exponent = max(0, math.ceil(math.log2(reach / LARGEST))) if reach > LARGEST else 0
    return exponent if exponent <= MOST_EXPONENT else None


def _in_halves(block_call: Any, product: _Product) -> Any:
    """Return a block's call with a product marked, and its weights halves."""
    block, exponent = block_call.op, _exponent_of(product)
    assert exponent is not None
    # A sum that begins with the bias is no larger than both; another adds it in float32.
    adds = product.addend is not None and 2 * product.addend + _reach_of(product) <= LARGEST
    halves = relay.const(tvm.nd.array((product.numbers * 2.0**-exponent).astype(HALF)))
    old = block.params[product.weights]
    new = relay.Var(old.name_hint, relay.TensorType(halves.data.shape, HALF))
    params = [new if each.same_as(old) else each for each in block.params]
    operands = list(block_call.args)
    operands[product.weights] = halves
    image = None
    if product.image is not None:
        given = block.params[product.image]
        image = relay.Var(given.name_hint, relay.TensorType(given.checked_type.shape, HALF))
        params[product.image] = image
        operands[product.image] = _rounded(operands[product.image], given.checked_type)
    calls = [each for each in post_order(block.body) if isinstance(each, relay.Call)]
    found = [each for each in calls if each.op.name in PRODUCTS][product.place]
    mark = Mark(product.terms, adds)
    body = _Marked(found, new, mark, exponent, product.saturates, image).visit(block.body)
    made = relay.Function(params, body, None, block.type_params, block.attrs)
    return relay.Call(made, operands, block_call.attrs, None, block_call.span)


class _Marked(relay.ExprMutator):
    """Marks the weights of a product, and multiplies the result by a power of two."""

    def __init__(
        self,
        product: Any,
        weights: Any,
        mark: Mark,
        exponent: int,
        saturates: bool,
        image: Any | None,
    ) -> None:
        super().__init__()
        self.product, self.weights, self.mark = product, weights, mark
        self.exponent, self.saturates, self.image = exponent, saturates, image

    def visit_call(self, call: Any) -> Any:
        """Return a call with what it takes changed."""
        if not call.same_as(self.product):
            return super().visit_call(call)
        data, weights = self.visit(call.args[0]), relay.cast(self.weights, SINGLE)
        if self.image is not None:
            data = relay.cast(self.image, SINGLE)
        if self.saturates:
            data = _saturated(data)
        made = relay.Call(call.op, [data, marked(weights, self.mark)], call.attrs, None, call.span)
        if not self.exponent:
            return made
        return relay.multiply(made, relay.const(2.0**self.exponent, SINGLE))


def _saturated(data: Any) -> Any:
    """Return numbers as what lies between blocks has them: what is no number stays none."""
    data = relay.maximum(relay.const(-LARGEST, SINGLE), data)
    return relay.minimum(relay.const(LARGEST, SINGLE), data)


def _rounded(image: Any, of: Any) -> Any:
    """Return the call of a block that rounds an image of type `of` to halves."""
    given = relay.Var("image", of)
    block = relay.Function([given], relay.cast(_saturated(given), HALF))
    attrs = {"Primitive": tvm.tir.IntImm("int32", 1), BLOCK_NAME: ROUNDED, BLOCK_NODES: ""}
    for key, value in attrs.items():
        block = block.with_attr(key, value)
    return relay.Call(block, [image])


def _heaviest(weights: np.ndarray, terms: int) -> float:
    """Return the largest sum of magnitudes of up to `terms` weights of one output channel."""
    chunks, *_, lanes = weights.shape
    rows = np.moveaxis(np.abs(weights), -1, 1).reshape(chunks * lanes, -1)
    chosen = np.sort(rows, axis=1)[:, -terms:]
    return float(chosen.sum(axis=1).max())


def _largest_addend(
    operands: Mapping[Any, Any], product: Any, calls: list[Any], within: Mapping[Any, Range]
) -> float | None:
    """Return the largest magnitude of the constant that is added to a product first, or None.

    None too of a matrix product, whose chains begin with zero.
    """
    if product.op.name == MATRIX:
        return None
    users = [each for each in calls if any(arg.same_as(product) for arg in each.args)]
    if len(users) != 1 or users[0].op.name not in ("add", "nn.bias_add"):
        return None
    (other,) = (each for each in users[0].args if not each.same_as(product))
    constant = _parameter(other)
    is_constant = isinstance(operands.get(constant, constant), relay.Constant)
    return largest_in(within[other]) if is_constant else None
