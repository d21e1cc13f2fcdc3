"""Conditions and loops, resolved while translating: what remains is a flat graph."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.errors import FusionXError
from tvm_fusionx.frontend.binding import how_to_bind, is_bindable, origin
from tvm_fusionx.frontend.decided_by_data import branch, repeat
from tvm_fusionx.frontend.node import ASK_SUPPORT, Node
from tvm_fusionx.frontend.scope import Scope, Translator
from tvm_fusionx.frontend.values import Tensor, Value

logger = logging.getLogger(__name__)

# A loop is unrolled, so its length is the length of the compiled program.
MOST_ITERATIONS = 1000
KNOWN_COUNT = (
    "Export with a fixed iteration count, or give the input that decides it as a constant."
)


class DecidedByDataError(Exception):
    """What is done next is known at run time only."""


def scalar_tensor(value: Any, dtype: str) -> Tensor:
    """Return one known number."""
    return Tensor.from_array(np.asarray(value, dtype=dtype))


def flag_of(node: Node, tensor: Value) -> Any:
    """Return a condition as a bool where it is known, else as an expression without axes."""
    if not isinstance(tensor, Tensor) or tensor.dtype != "bool" or not _is_one(tensor):
        found = f"{tensor.dtype} {tensor.shape_text}" if isinstance(tensor, Tensor) else "none"
        raise node.refuse("a condition of one boolean", found, ASK_SUPPORT)
    if tensor.array is not None:
        return bool(tensor.array.reshape(-1)[0])
    return tensor.expr if tensor.dims == () else relay.reshape(tensor.expr, ())


def _is_one(tensor: Tensor) -> bool:
    return tensor.dims in ((), (1,), (None,))


def select(translation: Translator, node: Node, flag: Any, yes: Value, no: Value) -> Value:
    """Return `yes` where the computed `flag` holds, else `no`; sequences item by item."""
    if yes is no:
        return yes
    if isinstance(yes, list) and isinstance(no, list) and len(yes) == len(no):
        items = [select(translation, node, flag, a, b) for a, b in zip(yes, no, strict=True)]
        return [item for item in items if isinstance(item, Tensor)]
    is_selectable = (
        isinstance(yes, Tensor)
        and isinstance(no, Tensor)
        and (yes.dims, yes.dtype) == (no.dims, no.dtype)
        and not yes.is_open
    )
    if not is_selectable:
        # Which of them it is, the data decides.
        raise DecidedByDataError
    return translation.seal(node, [relay.where(flag, yes.expr, no.expr)])[0]  # type: ignore[union-attr]


def run_if(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Take one branch where the condition is known, else compute both and select."""
    names = ("then_branch", "else_branch")
    flag = flag_of(node, node.tensor(0))
    if isinstance(flag, bool):
        chosen = node.attribute(names[0 if flag else 1])
        return translation.run_graph(chosen, Scope(scope), f"{node.name}/")
    sides = []
    for name in names:
        try:
            graph = node.attribute(name)
            sides.append(translation.run_graph(graph, Scope(scope), f"{node.name}/"))
        except FusionXError as error:
            # The other branch may be the one that runs: a known condition would leave this one out.
            raise node.refuse(
                f"a condition known while compiling, for {name} cannot be translated ({error})",
                origin(flag),
                how_to_bind(flag),
            ) from error
    if len(sides[0]) != len(sides[1]):
        raise node.refuse("branches with as many results", f"{len(sides[0])} and {len(sides[1])}")
    try:
        return [select(translation, node, flag, yes, no) for yes, no in zip(*sides, strict=True)]
    except DecidedByDataError:
        if is_bindable(flag):
            logger.info("%s is left to the run time. %s", node.name, how_to_bind(flag))
        return branch(translation, node, scope, flag)


def stack(translation: Translator, node: Node, parts: Sequence[Value], axis: int) -> Value:
    """Return tensors side by side along a new axis."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if all(tensor.array is not None for tensor in tensors):
        return Tensor.from_array(np.stack([t.array for t in tensors], axis))
    expanded = [relay.expand_dims(tensor.expr, axis) for tensor in tensors]
    whole = expanded[0] if len(expanded) == 1 else relay.concatenate(expanded, axis)
    return translation.seal(node, [whole])[0]


def run_loop(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Unroll a loop where its greatest length is known, else leave it to the run time."""
    if node.is_computed(0) and not is_bindable(node.expr(0)):
        return repeat(translation, node, scope)
    try:
        return _unroll(translation, node, scope)
    except DecidedByDataError:
        return repeat(translation, node, scope)


def _unroll(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Unroll a loop whose greatest length is known.

    Where a computed condition may end it earlier, each later iteration keeps the values as they
    were once it has ended.
    """
    body = node.attribute("body")
    limit = int(node.scalar(0, "it decides how often a loop runs")) if node.has(0) else None
    going: Any = flag_of(node, node.inputs[1]) if node.has(1) else True
    carried = list(node.inputs[2:])
    count = len(carried)
    collected: list[list[Value]] = [[] for _ in body.output[1 + count :]]
    step = 0
    while going is not False and (limit is None or step < limit):
        if step >= MOST_ITERATIONS:
            raise node.refuse(f"at most {MOST_ITERATIONS} iterations", "more", KNOWN_COUNT)
        if not isinstance(going, bool):
            _check_may_end_early(node, going, limit, bool(collected))
        results = _iterate(translation, node, scope, step, carried)
        after = list(results[1 : 1 + count])
        if not isinstance(going, bool):
            after = [
                select(translation, node, going, new, old)
                for new, old in zip(after, carried, strict=True)
            ]
        carried = after
        going = _still_going(translation, node, going, flag_of(node, results[0]))
        for parts, value in zip(collected, results[1 + count :], strict=True):
            parts.append(value)
        step += 1
    if not step and collected:
        # What an iteration would have made says of which shape there is nothing.
        results = _iterate(translation, node, scope, step, carried)
        return carried + [_none_of(node, value) for value in results[1 + count :]]
    return carried + [stack(translation, node, parts, 0) for parts in collected]


def _iterate(
    translation: Translator, node: Node, scope: Scope, step: int, carried: Sequence[Value]
) -> list[Value]:
    body, inner = node.attribute("body"), Scope(scope)
    values = [scalar_tensor(step, "int64"), scalar_tensor(True, "bool"), *carried]
    for info, value in zip(body.input, values, strict=False):
        inner[info.name] = value
    return translation.run_graph(body, inner, f"{node.name}/{step}/")


def _none_of(node: Node, value: Value) -> Tensor:
    """Return what is collected of a tensor over no iterations."""
    if not isinstance(value, Tensor) or value.is_open:
        raise node.refuse("at least one iteration", "none", KNOWN_COUNT)
    return Tensor.from_array(np.zeros((0, *value.shape), value.dtype))


def _check_may_end_early(node: Node, going: Any, limit: int | None, has_collected: bool) -> None:
    if (limit is None or has_collected) and not is_bindable(going):
        raise DecidedByDataError
    if limit is None:
        raise node.refuse(
            "a greatest number of iterations, or a condition known while compiling",
            origin(going),
            how_to_bind(going),
        )
    if has_collected:
        raise node.refuse(
            "a condition known while compiling, for results are collected over the iterations",
            origin(going),
            how_to_bind(going),
        )


def _still_going(translation: Translator, node: Node, before: Any, now: Any) -> Any:
    """Return whether a loop goes on, which it does as long as it always did."""
    if isinstance(now, bool):
        return before if now else False
    both = now if isinstance(before, bool) else relay.logical_and(before, now)
    (sealed,) = translation.seal(node, [both])
    return flag_of(node, sealed)
