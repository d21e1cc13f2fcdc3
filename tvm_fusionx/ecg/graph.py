"""The extended computational graph (ECG) of DNNFusion, section 3.1: hash-consed operator calls.

The graph knows nothing of Relay. An operator is a name, an attribute mapping of plain Python values
and operand values; what types a call returns is asked of a function handed to the graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_fusionx.ecg.node import (
    CONSTANT,
    INPUT,
    NO_ATTRIBUTES,
    Attributes,
    Grouping,
    Node,
    Value,
)
from tvm_fusionx.ecg.types import TensorType

__all__ = [
    "CONSTANT",
    "INPUT",
    "NO_ATTRIBUTES",
    "Attributes",
    "Graph",
    "Grouping",
    "InferTypes",
    "Node",
    "Value",
]

InferTypes = Callable[
    [str, Attributes, Sequence[TensorType], Grouping], "tuple[tuple[TensorType, ...], bool]"
]
"""``(op, attrs, operand types, grouping) -> (result types, returns a tuple)``."""


# Elements of a constant that are read to look for equal ones: enough that different weights differ
# in one, and few beside the millions that a layer has.
_SAMPLED = 64


class Graph:
    """Operator calls over inputs and constants, each distinct call once.

    Equal calls are one node (hash-consing), so common sub-expressions never exist twice. Rewriting
    goes through :meth:`replace`; nodes that nothing reads any more are dropped by :meth:`prune`.

    Parameters
    ----------
    infer_types
        Tells the result types of a call.
    """

    def __init__(self, infer_types: InferTypes) -> None:
        self._infer_types = infer_types
        self._next_number = 0
        self._by_key: dict[Any, Node] = {}
        self._key_of: dict[Node, Any] = {}
        self._users: dict[Node, dict[Node, None]] = {}
        self.inputs: list[Node] = []
        self.outputs: tuple[Value, ...] = ()
        self.returns_tuple = False
        self.payload: Any = None
        """The front end's object this graph came from (attributes of the function, its name)."""

    # ---- building ---------------------------------------------------------------------------

    def input(self, name: str, type_: TensorType, payload: Any = None) -> Value:
        """Add a graph input."""
        node = self._add(Node(self._number(), INPUT, NO_ATTRIBUTES, (), (), (type_,), name=name))
        node.payload = payload
        self.inputs.append(node)
        return node[0]

    def constant(self, array: np.ndarray | float | int, dtype: str | None = None) -> Value:
        """Add a constant; equal constants are one node.

        Parameters
        ----------
        array
            Its elements, any shape.
        dtype
            Element type; the array's own when None.
        """
        data = np.asarray(array, dtype=dtype)
        # `ascontiguousarray` would turn a scalar into a vector of one.
        data = data if data.flags.c_contiguous else np.ascontiguousarray(data)
        digest = _sample(data)
        for number in itertools.count():
            key = (CONSTANT, data.shape, str(data.dtype), digest, number)
            known = self._by_key.get(key)
            if known is None:
                break
            if _are_equal(known.payload, data):
                return known[0]
        type_ = TensorType(tuple(data.shape), str(data.dtype))
        node = Node(self._number(), CONSTANT, NO_ATTRIBUTES, (), (), (type_,), payload=data)
        return self._add(node, key)[0]

    def call(
        self,
        op: str,
        operands: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        *,
        grouping: Grouping | None = None,
        name: str = "",
    ) -> Value:
        """Add an operator call and return its first result."""
        return self.call_node(op, operands, attrs, grouping=grouping, name=name)[0]

    def call_node(
        self,
        op: str,
        operands: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        *,
        grouping: Grouping | None = None,
        outputs: tuple[TensorType, ...] | None = None,
        returns_tuple: bool = False,
        payload: Any = None,
        name: str = "",
    ) -> Node:
        """Add an operator call, or return the equal one that exists.

        Parameters
        ----------
        op
            Operator name.
        operands
            Values read, flat.
        attrs
            Attributes as plain values.
        grouping
            How the operands form arguments; every operand its own argument when None.
        outputs
            Result types; inferred when None.
        returns_tuple
            Whether the operator returns a tuple; only read together with `outputs`.
        payload
            The front end's object for a call that is not a plain operator.
        name
            Name of the node in the model.
        """
        frozen = attrs if isinstance(attrs, Attributes) else Attributes(attrs)
        groups = (None,) * len(operands) if grouping is None else grouping
        key = _call_key(op, frozen, operands, groups, payload)
        known = self._by_key.get(key)
        if known is not None:
            known.name = known.name or name
            return known
        if outputs is None:
            types = [value.type for value in operands]
            outputs, returns_tuple = self._infer_types(op, frozen, types, groups)
        node = Node(
            self._number(),
            op,
            frozen,
            tuple(operands),
            groups,
            outputs,
            returns_tuple=returns_tuple,
            payload=payload,
            name=name,
        )
        return self._add(node, key)

    # ---- looking ----------------------------------------------------------------------------

    def users(self, node: Node) -> tuple[Node, ...]:
        """Return the calls that read any result of `node`, in the order they were added."""
        return tuple(self._users.get(node, ()))

    def is_output(self, node: Node) -> bool:
        """Tell whether the graph returns a result of `node`."""
        return any(value.node is node for value in self.outputs)

    def has_single_user(self, value: Value) -> bool:
        """Tell whether exactly one call reads `value`'s node and the graph does not return it."""
        return len(self._users.get(value.node, ())) == 1 and not self.is_output(value.node)

    def topological(self) -> list[Node]:
        """Return the nodes that the outputs need, operands before users."""
        order: list[Node] = []
        state: dict[Node, bool] = {}
        stack = [value.node for value in reversed(self.outputs)]
        while stack:
            node = stack[-1]
            if node in state:
                stack.pop()
                if not state[node]:
                    state[node] = True
                    order.append(node)
                continue
            state[node] = False
            stack.extend(value.node for value in reversed(node.operands) if value.node not in state)
        return order

    def calls(self) -> list[Node]:
        """Return the operator calls that the outputs need, operands before users."""
        return [node for node in self.topological() if node.is_call]

    # ---- changing ---------------------------------------------------------------------------

    def replace(self, old: Value, new: Value) -> None:
        """Make every reader of `old` read `new` instead.

        A reader that becomes equal to an existing call is merged with it, and so on upwards.
        """
        pending = [(old, new)]
        merged: list[Node] = []
        while pending:
            before, after = pending.pop()
            if before is after:
                continue
            self.outputs = tuple(after if value is before else value for value in self.outputs)
            for user in self.users(before.node):
                if before in user.operands:
                    twins = self._change_operand(user, before, after)
                    merged.extend(first.node for first, _ in twins[:1])
                    pending.extend(twins)
        for node in merged:
            self.drop_unread(node)

    def prune(self) -> None:
        """Drop the nodes that no output needs; inputs stay."""
        live = set(self.topological()) | set(self.inputs)
        for node in [node for node in self._key_of if node not in live]:
            self._forget_key(node)
            del self._key_of[node]
            self._users.pop(node, None)
        for node, users in self._users.items():
            self._users[node] = {user: None for user in users if user in live}

    def drop_unread(self, node: Node) -> None:
        """Drop a call that nothing reads, and the calls that only it needs."""
        pending = [node]
        while pending:
            unread = pending.pop()
            if (
                not unread.is_call
                or not self.contains(unread)
                or self._users[unread]
                or self.is_output(unread)
            ):
                continue
            self._forget_key(unread)
            del self._key_of[unread]
            del self._users[unread]
            for value in unread.operands:
                self._users[value.node].pop(unread, None)
                pending.append(value.node)

    def contains(self, node: Node) -> bool:
        """Tell whether a node is in the graph, live or not."""
        return node in self._key_of

    def mark(self) -> int:
        """Return a mark for :meth:`rollback`: everything added later can be taken back."""
        return self._next_number

    def rollback(self, mark: int) -> None:
        """Take back the nodes added since `mark`, none of which anything older may read."""
        newest = itertools.takewhile(lambda node: node.number > mark, reversed(self._key_of))
        for node in list(newest):
            self._forget_key(node)
            del self._key_of[node]
            self._users.pop(node, None)
            for value in node.operands:
                if value.node in self._users:
                    self._users[value.node].pop(node, None)

    def reachable_since(self, mark: int, roots: Iterable[Value]) -> set[Node]:
        """Return the nodes added since `mark` that `roots` need."""
        found: set[Node] = set()
        pending = [value.node for value in roots]
        while pending:
            node = pending.pop()
            if node.number > mark and node not in found:
                found.add(node)
                pending.extend(value.node for value in node.operands)
        return found

    def _change_operand(self, user: Node, before: Value, after: Value) -> list[tuple[Value, Value]]:
        self._forget_key(user)
        user.operands = tuple(after if value is before else value for value in user.operands)
        if all(value.node is not before.node for value in user.operands):
            self._users[before.node].pop(user, None)
        self._users.setdefault(after.node, {})[user] = None
        key = _call_key(user.op, user.attrs, user.operands, user.grouping, user.payload)
        twin = self._by_key.get(key)
        if twin is None or twin is user:
            self._by_key[key] = user
            self._key_of[user] = key
            return []
        self._key_of[user] = None
        return list(zip(user, twin, strict=True))

    def _add(self, node: Node, key: Any = None) -> Node:
        self._key_of[node] = key
        if key is not None:
            self._by_key[key] = node
        self._users.setdefault(node, {})
        for value in node.operands:
            self._users[value.node][node] = None
        return node

    def _forget_key(self, node: Node) -> None:
        key = self._key_of[node]
        if key is not None and self._by_key.get(key) is node:
            del self._by_key[key]
        self._key_of[node] = None

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number


def _sample(array: np.ndarray) -> bytes:
    """Return some bytes of an array, by which most of those that differ are told apart."""
    elements = array.reshape(-1)
    return bytes(elements[:: max(1, elements.size // _SAMPLED)].tobytes())


def _are_equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Tell whether two contiguous arrays of one shape and type have the same bytes."""
    if one is other or one.ctypes.data == other.ctypes.data:
        return True
    # As bytes: a NaN equals itself then, and 0.0 is not -0.0.
    return bool(np.array_equal(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8)))


def _call_key(
    op: str, attrs: Attributes, operands: Sequence[Value], grouping: Grouping, payload: Any
) -> tuple[Any, ...]:
    return (op, attrs, tuple(operands), grouping, payload)
