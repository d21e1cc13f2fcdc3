"""Operands of a block's product: which parameters they are, and other weights in their place."""

from __future__ import annotations

from typing import Any

from tvm import relay

from tvm_fusionx.ecg.block_calls import post_order

# Operators that leave numbers where they lie, and casts.
_SAME_PLACES = ("cast", "reshape", "squeeze", "expand_dims")


def calls_of(block: Any, *names: str) -> list[Any]:
    """Return the calls of a block of the operators of these names, in order."""
    calls = (each for each in post_order(block.body) if isinstance(each, relay.Call))
    return [each for each in calls if getattr(each.op, "name", "") in names]


def parameter_of(expr: Any) -> Any:
    """Return the parameter that an operand is, in another type or shape; else what computes it."""
    while isinstance(expr, relay.Call) and getattr(expr.op, "name", "") in _SAME_PLACES:
        expr = expr.args[0]
    return expr


def why_not_stored(block_call: Any, product: Any, dtype: str) -> str | None:
    """Return why a product's data do not lie in memory as `dtype`, or its weights can not, or None.

    Parameters
    ----------
    block_call
        Of a block, typed.
    product
        A call within it, of data and weights.
    dtype
        ``"float16"`` or ``"bfloat16"``.
    """
    data, weights = (parameter_of(each) for each in product.args)
    given = dict(zip(block_call.op.params, block_call.args, strict=True))
    if data not in given or str(data.checked_type.dtype) != dtype:
        return f"what it multiplies does not lie in memory as {dtype}"
    if not isinstance(given.get(weights), relay.Constant):
        return "its weights are not constant"
    calls = (each for each in post_order(block_call.op.body) if isinstance(each, relay.Call))
    if sum(any(arg.same_as(weights) for arg in each.args) for each in calls) != 1:
        return "something else reads its weights"
    return None


def with_weights(block_call: Any, product: Any, weights: Any, made: Any) -> Any:
    """Return a block's call with other weights of a product.

    Parameters
    ----------
    block_call
        Of a block; what it is given may be another call's result than in the block's function.
    product
        A call within the block.
    weights
        An array of TVM's.
    made
        Given the product's data and the parameter of the new weights, returns the new product.
    """
    block, old = block_call.op, parameter_of(product.args[1])
    new = relay.Var(old.name_hint, relay.TensorType(weights.shape, weights.dtype))
    body = _Replaced(product, new, made).visit(block.body)
    params = [new if each.same_as(old) else each for each in block.params]
    operands = list(block_call.args)
    operands[list(block.params).index(old)] = relay.Constant(weights)
    function = relay.Function(params, body, None, block.type_params, block.attrs)
    return relay.Call(function, operands, block_call.attrs, None, block_call.span)


class _Replaced(relay.ExprMutator):
    """Puts another product in the place of one."""

    def __init__(self, product: Any, weights: Any, made: Any) -> None:
        super().__init__()
        self.product, self.weights, self.made = product, weights, made

    def visit_call(self, call: Any) -> Any:
        """Return a call with what it takes changed."""
        if not call.same_as(self.product):
            return super().visit_call(call)
        return self.made(self.visit(call.args[0]), self.weights)
