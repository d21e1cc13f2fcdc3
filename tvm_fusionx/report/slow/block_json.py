"""A block as plain JSON without its weights: operators, attributes, shapes, dtypes, wiring.

::

    {"operands": [{"type": ["float32", [4, 16]], "is_constant": false, "values": null}, ...],
     "scalars":  [["float32", null], ["int32", 2]],
     "calls":    [{"op": "nn.dense", "attributes": {...}, "reads": [["operand", 0], ...],
                   "grouping": [null, null], "results": [["float32", [4, 8]]]}, ...],
     "outputs":  [["call", 0, 0]], "is_tuple": false}

A constant is a type alone. What stays of values are integers that decide what the kernel is: lists
of indices, and whole numbers written into it; and of floating-point scalars in it those that
operators are made of, such as the exponent 2, the limit 0 or infinity.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.ecg import NotAGraphError, from_relay
from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import FUNCTION
from tvm_fusionx.ecg.relay_constants import to_array
from tvm_fusionx.ecg.to_relay import is_inline_constant
from tvm_fusionx.ecg.types import TensorType
from tvm_fusionx.operators import INDEX_OPERANDS, STEERING_OPERANDS, MappingType, mapping_type_of
from tvm_fusionx.report.slow.bounds import MOST_BLOCK_BYTES, MOST_KEPT_NUMBERS

# The values of these operators' weights say how long they take: which are zero, which rows alike.
STEERED_BY_WEIGHTS = frozenset(
    [*STEERING_OPERANDS, "fusionx.reuse_conv2d", "fusionx.reuse_kept_conv2d"]
)

# Attributes that are numbers of the model and not of the operator, and what stands for them: the
# factor of a quantised layer, a half as a 31-bit fraction.
STAND_INS = {"fixed_point_multiply": {"multiplier": 1 << 30}}

# Whole numbers and halves up to this are what operators are made of.
LARGEST_KEPT_FLOAT = 4.0

OPERAND, SCALAR, CALL = "operand", "scalar", "call"


class NotTellableError(ValueError):
    """A block cannot be told without its weights."""


def block_json(call: relay.Call, names: bool = False) -> dict[str, Any]:
    """Return the block that a typed call of an inline function is, without its weights.

    Parameters
    ----------
    call
        In ``main`` of a module after ``fx.pipeline``: an argument that is a constant is a weight.
    names
        Whether calls keep the names of the model's nodes.

    Raises
    ------
    NotTellableError
        The block needs what a report cannot hold.
    """
    try:
        graph = from_relay(call.op)
    except NotAGraphError as error:
        raise NotTellableError(f"it is no graph of operators: {error}") from error
    constants = [to_array(arg) if isinstance(arg, relay.Constant) else None for arg in call.args]
    if all(constant is not None for constant in constants):
        raise NotTellableError("it reads nothing but constants")
    told = _Writer(graph, names).written(constants)
    size = len(json.dumps(told))
    if size > MOST_BLOCK_BYTES:
        raise NotTellableError(f"it takes {size} bytes, more than {MOST_BLOCK_BYTES}")
    return told


def why_not_tellable(op: str) -> str | None:
    """Return why no report may hold a call of an operator; None where it may."""
    if op == FUNCTION:
        return "a function is called in it"
    if op in STEERED_BY_WEIGHTS:
        return f"how long {op} takes is said by its weights, which a report does not hold"
    if mapping_type_of(op) is MappingType.OPAQUE or op.startswith("dyn."):
        return f"{op} is none of the operators that templates serve"
    return None


class _Writer:
    """Numbers the values of one graph."""

    def __init__(self, graph: Graph, names: bool) -> None:
        self.graph, self.names = graph, names
        self.places: dict[Value, list[Any]] = {}
        self.scalars: list[list[Any]] = []

    def written(self, constants: Sequence[np.ndarray | None]) -> dict[str, Any]:
        operands = []
        for place, (node, constant) in enumerate(zip(self.graph.inputs, constants, strict=True)):
            self.places[node[0]] = [OPERAND, place]
            operands.append(
                {
                    "type": type_json(node.outputs[0]),
                    "is_constant": constant is not None,
                    "values": self._kept_values(node, constant),
                }
            )
        calls = [self._call(place, node) for place, node in enumerate(self.graph.calls())]
        return {
            "operands": operands,
            "scalars": self.scalars,
            "calls": calls,
            "outputs": [self._place(value) for value in self.graph.outputs],
            "is_tuple": self.graph.returns_tuple,
        }

    def _call(self, place: int, node: Node) -> dict[str, Any]:
        refused = why_not_tellable(node.op)
        if refused is not None:
            raise NotTellableError(refused)
        told: dict[str, Any] = {
            "op": node.op,
            "attributes": {
                name: STAND_INS.get(node.op, {}).get(name, _attribute(node.op, name, value))
                for name, value in node.attrs.items()
            },
            "reads": [self._place(value) for value in node.operands],
            "grouping": list(node.grouping),
            "results": [type_json(result) for result in node.outputs],
        }
        if self.names:
            told["name"] = node.name
        self.places.update({value: [CALL, place, value.index] for value in node})
        return told

    def _place(self, value: Value) -> list[Any]:
        if value not in self.places:
            if not is_inline_constant(value):
                raise NotTellableError(f"a constant {value.type} stands in it")
            self.places[value] = [SCALAR, len(self.scalars)]
            self.scalars.append([value.dtype, _kept_scalar(value.array.item())])
        return self.places[value]

    def _kept_values(self, node: Node, constant: np.ndarray | None) -> list[int] | None:
        """Return the numbers of a short constant that is read as indices and as nothing else."""
        if constant is None or constant.dtype.kind not in "iu" or constant.size > MOST_KEPT_NUMBERS:
            return None
        users = self.graph.users(node)
        read = [(user.op, at) for user in users for at in _positions(user, node[0])]
        if not read or any(at not in INDEX_OPERANDS.get(op, ()) for op, at in read):
            return None
        return [int(number) for number in constant.reshape(-1)]


def type_json(type_: TensorType) -> list[Any]:
    """Return a type as JSON."""
    return [type_.dtype, list(type_.shape)]


def _positions(user: Node, value: Value) -> list[int]:
    return [at for at, operand in enumerate(user.operands) if operand is value]


def _kept_scalar(value: Any) -> Any:
    """Return what a file may tell of a number that is written into a kernel; None: its type."""
    if not isinstance(value, float):
        return value
    if math.isinf(value):
        return repr(value)
    is_kept = abs(value) <= LARGEST_KEPT_FLOAT and (2 * value).is_integer()
    return value if is_kept else None


def _attribute(op: str, name: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"number": repr(value)}
    if isinstance(value, tuple):
        return [_attribute(op, name, item) for item in value]
    raise NotTellableError(f"attribute {name} of {op} is a {type(value).__name__}")
