"""Keep what lies in memory between blocks, and weights, in 16 bits; compute in float32.

A block takes its operands as they lie in memory, widens them, computes as before, and narrows its
result: half the bytes are moved and stored, and every sum is one of float32. The model's own inputs
and outputs stay float32, and so does what :data:`KEPT_RESULTS` and :data:`KEPT_OPERANDS` name.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
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
from tvm_fusionx.ecg.relay_constants import cast_constant
from tvm_fusionx.ecg.to_relay import BLOCK_NAME, BLOCK_NODES
from tvm_fusionx.layout.constant_uses import uses_of

logger = logging.getLogger(__name__)

SINGLE, HALF, BRAIN = "float32", "float16", "bfloat16"

# A smaller constant (a bias, a scale) is read once a kernel and costs no time worth its digits.
FEWEST_ELEMENTS = 1024

# What a type holds at most: of bfloat16, which has the exponents of float32 and 8 of its bits, less
# than float32 does, so that a mask of float32's least would be infinite.
LARGEST = {HALF: float(np.finfo(np.float16).max), BRAIN: (2 - 2.0**-7) * 2.0**127}

# Results that grow beyond what they are made of, or that differences are taken of, stay float32.
KEPT_RESULTS = frozenset(
    [
        *("exp", "log", "log2", "power", "sum", "prod", "cumsum", "cumprod", "variance"),
        *("arange", "meshgrid", "tan", "sinh", "cosh", "reciprocal"),
    ]
)

# Operands that count, tell places or angles, or are compared: eleven bits are too few for those.
KEPT_OPERANDS = frozenset(
    [
        *(
            "ceil",
            "floor",
            "round",
            "trunc",
            "floor_divide",
            "floor_mod",
            "mod",
            "fusionx.round_even",
        ),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("argmax", "argmin", "sin", "cos", "tan"),
        *("image.grid_sample", "vision.roi_align", "vision.roi_pool"),
    ]
)

RESHAPE_ONLY = "relay.reshape_only"

# TVM's OpPatternKind: operators without tensor expressions, which TVM schedules by itself.
OPAQUE = 8

# One result of a call: the call, and its number among the results.
Place = tuple[Any, int]


def store_narrow(
    function: relay.Function, dtype: str = HALF, most_uses: float = math.inf
) -> relay.Function:
    """Return a function of blocks whose tensors between blocks, and large constants, have 16 bits.

    What is too large for the type is stored as its largest number: a mask's -1e38 stays a number.

    Parameters
    ----------
    function
        Typed; its operators stand in inline functions marked ``Primitive``. What is called
        otherwise, and blocks with operators that TVM schedules by itself, keep float32.
    dtype
        ``"float16"`` or ``"bfloat16"``.
    most_uses
        How often each element of a constant may be multiplied for the constant to be narrowed.

    Returns
    -------
    relay.Function
        The same parameters and results; not typed.
    """
    order = post_order(function.body)
    narrowing = _Narrowing(_narrow_places(function.body, order), dtype, most_uses)
    made: dict[Any, Any] = {}
    for expr in order:
        if is_block_call(expr):
            made[expr] = narrowing.call(expr, made)
        else:
            made[expr] = with_operands(expr, [made[operand] for operand in operands_of(expr)])
    return with_body(function, made[function.body])


def _narrow_places(result: Any, order: list[Any]) -> set[Place]:
    """Return the results of blocks that only blocks read, which take them in 16 bits."""
    narrow = {
        (call, index)
        for call in order
        if is_block_call(call) and why_not_narrow(call.op) is None
        for index, of in enumerate(_types(call))
        if of.dtype == SINGLE and not _is_kept_result(call.op, index)
    }
    kept = [_place(result)]
    for expr in order:
        if isinstance(expr, relay.TupleGetItem):
            continue
        if not is_block_call(expr) or why_not_narrow(expr.op) is not None:
            kept += [_place(operand) for operand in operands_of(expr)]
        else:
            kept += [_place(operand) for operand in _kept_operands(expr)]
    narrow -= {place for place in kept if place is not None}
    narrow -= {place for place in narrow if place[0].same_as(result)}
    views = [call for call in order if is_block_call(call) and _is_view(call)]
    changed = True
    while changed:
        changed = False
        for call in views:
            pair = (_place(call.args[0]), (call, 0))
            if pair[1] in narrow and pair[0] in narrow:
                continue
            changed |= bool(narrow & set(pair))
            narrow -= {place for place in pair if place is not None}
    return narrow


def why_not_narrow(block: relay.Function) -> str | None:
    """Return why a block cannot take and give 16 bits, or None."""
    for expr in post_order(block.body):
        if not isinstance(expr, relay.Call):
            continue
        if not isinstance(expr.op, tvm.ir.Op):
            return "it calls a function"
        pattern = expr.op.get_attr("TOpPattern")
        if pattern is None or int(pattern) >= OPAQUE:
            return f"TVM schedules {expr.op.name} by itself"
    return None


def _is_kept_result(block: Any, index: int) -> bool:
    """Tell whether a result of a block is one of those that stay float32."""
    body = block.body
    result = body.fields[index] if isinstance(body, relay.Tuple) else body
    return isinstance(result, relay.Call) and result.op.name in KEPT_RESULTS


def _kept_operands(call: Any) -> list[Any]:
    """Return the operands of a block's call that an operator reads who needs all their digits."""
    numbers = {param: at for at, param in enumerate(call.op.params)}
    found = []
    for expr in post_order(call.op.body):
        if isinstance(expr, relay.Call) and _needs_digits(expr):
            found += [call.args[numbers[each]] for each in expr.args if each in numbers]
    return found


def _needs_digits(call: Any) -> bool:
    if call.op.name != "cast":
        return call.op.name in KEPT_OPERANDS
    return "int" in str(call.attrs.dtype)


class _Narrowing:
    """Rewrites the calls of blocks, one by one."""

    def __init__(self, narrow: set[Place], dtype: str, most_uses: float) -> None:
        self.narrow = narrow
        self.dtype = dtype
        self.most_uses = most_uses

    def call(self, call: Any, made: Mapping[Any, Any]) -> Any:
        """Return a block's call whose operands and results lie in memory as chosen."""
        block = call.op
        params, operands, inside = [], [], {}
        can_widen = why_not_narrow(block) is None and not _is_view(call)
        for param, given in zip(block.params, call.args, strict=True):
            operand, is_narrow = made[given], _place(given) in self.narrow
            if can_widen and isinstance(given, relay.Constant) and self._should_narrow(given, call):
                operand = cast_constant(self._clipped(given, call), self.dtype)
                is_narrow = True
            operands.append(operand)
            of = given.checked_type
            kind = relay.TensorType(of.shape, self.dtype) if is_narrow else of
            params.append(relay.Var(param.name_hint, kind))
            is_widened = is_narrow and not _is_view(call)
            inside[param] = relay.cast(params[-1], SINGLE) if is_widened else params[-1]
        body = relay.bind(block.body, inside)
        if not _is_view(call):
            body = self._results(body, call)
        return relay.Call(
            relay.Function(params, body, None, block.type_params, block.attrs),
            operands,
            call.attrs,
            None,
            call.span,
        )

    def _results(self, body: Any, call: Any) -> Any:
        """Return a block's body with the results that lie in memory in 16 bits cast to them."""
        if not isinstance(call.checked_type, relay.TupleType):
            return self._stored(body) if (call, 0) in self.narrow else body
        count = len(call.checked_type.fields)
        if not any((call, index) in self.narrow for index in range(count)):
            return body
        fields = list(body.fields) if isinstance(body, relay.Tuple) else None
        results = []
        for index in range(count):
            field = fields[index] if fields is not None else relay.TupleGetItem(body, index)
            results.append(self._stored(field) if (call, index) in self.narrow else field)
        return relay.Tuple(results)

    def _stored(self, value: Any) -> Any:
        bound = LARGEST[self.dtype]
        # The number last: what is no number stays none.
        value = relay.maximum(relay.const(-bound, SINGLE), value)
        value = relay.minimum(relay.const(bound, SINGLE), value)
        return relay.cast(value, self.dtype)

    def _clipped(self, constant: Any, call: Any) -> Any:
        """Return a constant within the type, and log what was not: nobody could see it later."""
        numbers, bound = constant.data.numpy(), LARGEST[self.dtype]
        beyond = int(np.count_nonzero(np.abs(numbers) > bound))
        if not beyond:
            return constant
        attrs = call.op.attrs or {}
        logger.warning(
            "constant of shape %s in block %s (nodes %s): %d of its numbers lie beyond %s and are "
            "stored as its largest one, %g. A mask may stay so; for a weight, build without "
            "precision.",
            tuple(numbers.shape),
            attrs.get(BLOCK_NAME, "without a name"),
            attrs.get(BLOCK_NODES, "without names"),
            beyond,
            self.dtype,
            bound,
        )
        return relay.Constant(tvm.nd.array(np.clip(numbers, -bound, bound)))

    def _should_narrow(self, constant: Any, call: Any) -> bool:
        of = constant.checked_type
        if of.dtype != SINGLE or np.prod([int(each) for each in of.shape]) < FEWEST_ELEMENTS:
            return False
        return uses_of(constant, call.op) <= self.most_uses


def _is_view(call: Any) -> bool:
    """Tell whether a block only gives its operand another shape; no kernel runs."""
    return RESHAPE_ONLY in (call.op.attrs or {})


def _place(expr: Any) -> Place | None:
    if isinstance(expr, relay.TupleGetItem):
        return expr.tuple_value, int(expr.index)
    return (expr, 0) if isinstance(expr, relay.Call) else None


def _types(call: Any) -> list[Any]:
    of = call.checked_type
    return list(of.fields) if isinstance(of, relay.TupleType) else [of]
