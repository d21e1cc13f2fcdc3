"""Branches and loops that the data decides on: functions of the module beside ``main``.

What a branch or a body computes is a function of its own, and takes what it reads of its
surroundings as parameters. Such a function is a graph like any other, so its operators are fused.
A second function steers: it holds the condition, and calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.binding import how_to_bind, is_bindable
from tvm_fusionx.frontend.node import ASK_SUPPORT, Node
from tvm_fusionx.frontend.scope import Scope, Translator
from tvm_fusionx.frontend.values import Tensor, Value, constant

Dims = tuple[int | None, ...]


class Surroundings(Scope):
    """What a function sees of the graph around it: constants, and a parameter for all else."""

    def __init__(self, translation: Translator, outer: Scope) -> None:
        super().__init__()
        self.outer = outer
        self.params: list[Any] = []
        self.arguments: list[Any] = []
        self._translation = translation
        self._inside: dict[Any, Tensor] = {}

    def holds(self, name: str) -> bool:
        """Fetch the value from outside; there an unknown name is an error."""
        if name not in self.values:
            value = self.outer[name]
            if isinstance(value, Tensor):
                self.values[name] = self._parameter(name, value)
            else:
                self.values[name] = value and [self._parameter(name, item) for item in value]
        return True

    def _parameter(self, name: str, tensor: Tensor) -> Tensor:
        if tensor.array is not None:
            return tensor
        if tensor.expr not in self._inside:
            made = self._translation.inner_variable(name, tensor.dims, tensor.dtype)
            made.element = tensor.element
            self._inside[tensor.expr] = made
            self.params.append(made.expr)
            self.arguments.append(tensor.expr)
        return self._inside[tensor.expr]


def branch(translation: Translator, node: Node, scope: Scope, flag: Any) -> list[Value]:
    """Compute the one branch that `flag` says."""
    sides: list[Surroundings] = []
    results: list[list[Tensor]] = []
    for name in ("then_branch", "else_branch"):
        around = Surroundings(translation, scope)
        made = translation.run_graph(node.attribute(name), Scope(around), f"{node.name}/")
        sides.append(around)
        results.append(_tensors(node, made, "results of branches"))
    # A condition that is known chooses one of them, whatever they have in common.
    next_step = how_to_bind(flag) if is_bindable(flag) else ASK_SUPPORT
    dims = [
        _joined(node, yes, no, f"result {number}", next_step)
        for number, (yes, no) in enumerate(zip(*results, strict=True))
    ]
    types = [
        Tensor(None, each, tensor.dtype).relay_type
        for each, tensor in zip(dims, results[0], strict=True)
    ]
    condition = translation.inner_variable("condition", (), "bool").expr
    calls, params = [], [condition]
    for side, tensors, word in zip(sides, results, ("then", "else"), strict=True):
        exprs = [tensor.expr for tensor in tensors]
        own_types = [tensor.relay_type for tensor in tensors]
        function = translation.define(f"{node.name}_{word}", side.params, exprs, own_types)
        # Both sides of a condition have one type. A function that returns what is open would be
        # open inside, too; so one more returns what the other does.
        opened = translation.declare(f"{node.name}_{word}_open", side.params, types)
        passed = [relay.Var(each.name_hint, each.type_annotation) for each in side.params]
        translation.steer(opened, passed, function(*passed))
        passed = [relay.Var(each.name_hint, each.type_annotation) for each in side.params]
        params += passed
        calls.append(opened(*passed))
    steering = translation.declare(f"{node.name}_if", params, types)
    translation.steer(steering, params, relay.If(condition, *calls))
    chosen = steering(flag, *sides[0].arguments, *sides[1].arguments)
    return _values(translation, node, chosen, results[0])


def repeat(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Run the body as often as the data says."""
    carried = _tensors(node, node.inputs[2:], "values that a loop carries")
    dims: list[Dims] = [tensor.dims for tensor in carried]
    while True:
        body = _Body(translation, node, scope, carried, dims)
        joined = [
            _joined(node, before, after, f"value {number}")
            for number, (before, after) in enumerate(zip(body.carried, body.after, strict=True))
        ]
        if joined == dims:
            break
        # An extent that an iteration changes is one that the data decides.
        dims = joined
    return _steered(translation, node, body, carried)


class _Body:
    """One iteration as a function of the module.

    Attributes
    ----------
    around
        What it reads of its surroundings.
    step, carried
        The variables that it takes.
    going
        Whether another iteration follows.
    after, items
        What is carried on, and what is collected.
    """

    def __init__(
        self,
        translation: Translator,
        node: Node,
        scope: Scope,
        outer: Sequence[Tensor],
        dims: Sequence[Dims],
    ) -> None:
        graph = node.attribute("body")
        names = [info.name for info in graph.input]
        self.around = Surroundings(translation, scope)
        self.step = translation.inner_variable("iteration", (), "int64")
        self.carried = []
        for name, tensor, each in zip(names[2:], outer, dims, strict=True):
            variable = translation.inner_variable(name, each, tensor.dtype)
            variable.element = tensor.element
            self.carried.append(variable)
        inner = Scope(self.around)
        given = [self.step, Tensor.from_array(np.asarray(True)), *self.carried]
        for name, value in zip(names, given, strict=True):
            inner[name] = value
        made = translation.run_graph(graph, inner, f"{node.name}/")
        going, *rest = _tensors(node, made, "results of a loop's body")
        if going.dtype != "bool" or going.dims not in ((), (1,), (None,)):
            raise node.refuse("a condition of one boolean", f"{going.dtype} {going.shape_text}")
        self.going = going.expr if going.dims == () else relay.reshape(going.expr, ())
        self.after, self.items = rest[: len(outer)], rest[len(outer) :]
        for item in self.items:
            if item.is_open:
                raise node.refuse(
                    "collected results of one shape in all iterations", item.shape_text
                )


def _steered(
    translation: Translator, node: Node, body: _Body, carried: Sequence[Tensor]
) -> list[Value]:
    own = [body.step.expr, *(each.expr for each in body.carried), *body.around.params]
    rows = [relay.expand_dims(item.expr, 0) for item in body.items]
    results = [body.going, *(each.expr for each in body.after), *rows]
    boolean = relay.TensorType([], "bool")
    kept_types = [each.relay_type for each in body.carried]
    after_types = [each.relay_type for each in body.after]
    row_types = [relay.TensorType([1, *item.shape], item.dtype) for item in body.items]
    function = translation.define(
        f"{node.name}_body", own, results, [boolean, *after_types, *row_types]
    )
    counter = relay.TensorType([], "int64")
    list_types = [relay.TensorType([relay.Any(), *item.shape], item.dtype) for item in body.items]
    step, limit = relay.Var("step", counter), relay.Var("limit", counter)
    going = relay.Var("going", boolean)
    kept = [relay.Var("carried", each) for each in kept_types]
    lists = [relay.Var("collected", each) for each in list_types]
    passed = [relay.Var("outer", each.type_annotation) for each in body.around.params]
    params = [step, limit, going, *kept, *lists, *passed]
    steering = translation.declare(f"{node.name}_loop", params, [*kept_types, *list_types])
    once = function(step, *kept, *passed)
    after = [relay.TupleGetItem(once, 1 + number) for number in range(len(kept))]
    rows = [relay.TupleGetItem(once, 1 + len(kept) + number) for number in range(len(lists))]
    longer = _appended(translation, node, lists, rows, row_types) if lists else []
    again = steering(
        step + relay.const(1, "int64"),
        limit,
        relay.TupleGetItem(once, 0),
        *after,
        *longer,
        *passed,
    )
    goes_on = relay.logical_and(going, relay.less(step, limit))
    translation.steer(steering, params, relay.If(goes_on, again, relay.Tuple([*kept, *lists])))
    first = steering(
        relay.const(0, "int64"),
        _number(node, 0, np.iinfo("int64").max, "int64"),
        _number(node, 1, True, "bool"),
        *(each.expr for each in carried),
        *(constant(np.zeros((0, *item.shape), item.dtype)) for item in body.items),
        *body.around.arguments,
    )
    shown = [*body.carried, *body.items]
    return _values(translation, node, first, shown)


def _appended(
    translation: Translator,
    node: Node,
    lists: Sequence[Any],
    rows: Sequence[Any],
    row_types: Sequence[Any],
) -> list[Any]:
    """Return lists with a row more each, by a function of its own: rows are fields of a tuple."""
    types = [each.type_annotation for each in lists]
    params = [relay.Var("part", kind) for kind in [*types, *row_types]]
    pairs = zip(params[: len(lists)], params[len(lists) :], strict=True)
    joined = [relay.concatenate(list(pair), 0) for pair in pairs]
    made = translation.define(f"{node.name}_append", params, joined, types)(*lists, *rows)
    return [relay.TupleGetItem(made, number) for number in range(len(lists))]


def _number(node: Node, position: int, absent: Any, dtype: str) -> Any:
    if not node.has(position):
        return relay.const(absent, dtype)
    tensor = node.tensor(position)
    if tensor.array is not None:
        return relay.const(tensor.array.reshape(-1)[0].item(), dtype)
    return tensor.expr if tensor.dims == () else relay.reshape(tensor.expr, ())


def _values(translation: Translator, node: Node, call: Any, like: Sequence[Tensor]) -> list[Value]:
    parts = [relay.TupleGetItem(call, number) for number in range(len(like))]
    values = translation.seal(node, parts)
    for value, tensor in zip(values, like, strict=True):
        if isinstance(value, Tensor):
            value.element = tensor.element
    return values


def _tensors(node: Node, values: Sequence[Value], things: str) -> list[Tensor]:
    tensors = [value for value in values if isinstance(value, Tensor)]
    if len(tensors) < len(values):
        raise node.refuse(
            f"{things} that are tensors, for the data decides", "a sequence", ASK_SUPPORT
        )
    return tensors


def _joined(
    node: Node, one: Tensor, other: Tensor, thing: str, next_step: str = ASK_SUPPORT
) -> Dims:
    """Return the extents that both have, and None where they differ."""
    if (one.dtype, one.rank) != (other.dtype, other.rank):
        raise node.refuse(
            f"{thing} of one element type and as many axes either way",
            f"{one.dtype} {one.shape_text} or {other.dtype} {other.shape_text}",
            next_step,
        )
    return tuple(a if a == b else None for a, b in zip(one.dims, other.dims, strict=True))
