"""Name the constants of blocks, and give weights of products the shape of an image."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.ecg.block_calls import is_block_call, operands_of, post_order
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.textures import CONSTANT_NAME, DTYPES, PIXEL

# A smaller weight stays in any cache.
FEWEST_ELEMENTS = 1024

MATRIX_AXES = 2

# Operators whose second operand is a matrix of weights, a row for each summed element.
PRODUCTS = ("nn.matmul",)


def prepare_textures(function: relay.Function, gpu: Gpu) -> relay.Function:
    """Return a function of blocks in which weights can be images.

    Constants that blocks take are known by the names of their parameters. A matrix ``[K, N]`` of
    weights becomes ``[K, N / 4, 4]`` where its columns are whole pixels.

    Parameters
    ----------
    function
        Typed; its operators stand in inline functions marked ``Primitive``.
    """
    made: dict[Any, Any] = {}
    for expr in post_order(function.body):
        operands = [made[operand] for operand in operands_of(expr)]
        if is_block_call(expr):
            made[expr] = _block_call(expr, operands, gpu)
        elif isinstance(expr, relay.Call):
            made[expr] = relay.Call(expr.op, operands, expr.attrs, expr.type_args, expr.span)
        elif isinstance(expr, relay.Tuple):
            made[expr] = relay.Tuple(operands, expr.span)
        elif isinstance(expr, relay.TupleGetItem):
            made[expr] = relay.TupleGetItem(operands[0], expr.index, expr.span)
        else:
            made[expr] = expr
    return relay.Function(
        function.params, made[function.body], None, function.type_params, function.attrs
    )


def _block_call(call: Any, operands: list[Any], gpu: Gpu) -> Any:
    block = call.op
    weights = _matrices(block)
    params, inside = [], {}
    for place, (param, given) in enumerate(zip(block.params, call.args, strict=True)):
        kept = param
        if isinstance(given, relay.Constant):
            value = given.data.numpy()
            name = f"{CONSTANT_NAME}{place}"
            if param in weights and _fits(value, gpu):
                pixels = value.reshape(value.shape[0], -1, PIXEL)
                operands[place] = relay.Constant(tvm.nd.array(pixels))
                kept = relay.Var(name, relay.TensorType(pixels.shape, str(pixels.dtype)))
                inside[param] = relay.reshape(kept, value.shape)
            else:
                kept = relay.Var(name, given.checked_type)
                inside[param] = kept
        params.append(kept)
    body = relay.bind(block.body, inside)
    changed = relay.Function(params, body, None, block.type_params, block.attrs)
    return relay.Call(changed, operands, call.attrs, None, call.span)


def _matrices(block: Any) -> set[Any]:
    """Return the parameters that are a product's weights, whatever else is read of them."""
    found = set()
    for expr in post_order(block.body):
        if isinstance(expr, relay.Call) and getattr(expr.op, "name", "") in PRODUCTS:
            weight = expr.args[1]
            while isinstance(weight, relay.Call) and weight.op.name == "cast":
                weight = weight.args[0]
            if isinstance(weight, relay.Var) and not expr.attrs.transpose_b:
                found.add(weight)
    return found


def _fits(value: Any, gpu: Gpu) -> bool:
    is_matrix = value.ndim == MATRIX_AXES and str(value.dtype) in DTYPES
    if not is_matrix or value.size < FEWEST_ELEMENTS or value.shape[1] % PIXEL:
        return False
    return bool(max(value.shape[0], value.shape[1] // PIXEL) <= gpu.texture_extent)
