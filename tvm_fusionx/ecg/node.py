"""What a graph is made of: nodes, the values they give, and their attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_fusionx.ecg.types import TensorType

INPUT = "input"
CONSTANT = "constant"

# How a call's flat operands are grouped into arguments: None is one tensor, n is a tuple of n.
Grouping = tuple["int | None", ...]


class Attributes(Mapping[str, Any]):
    """A frozen, hashable mapping of attribute names to plain values.

    Parameters
    ----------
    values
        Attribute values: numbers, strings, None, and (nested) tuples of them.
    origin
        The front end's own object for the same values, kept so that an untouched call goes back
        exactly as it came; not part of equality.
    """

    __slots__ = ("_hash", "_values", "origin")

    def __init__(self, values: Mapping[str, Any] | None = None, origin: Any = None) -> None:
        self._values = dict(values or {})
        self.origin = origin
        self._hash = hash(tuple(sorted(self._values.items(), key=lambda item: item[0])))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attributes):
            return NotImplemented
        return self._hash == other._hash and self._values == other._values

    def __repr__(self) -> str:
        return f"Attributes({self._values})"

    def replace(self, **changes: Any) -> Attributes:
        """Return the same attributes with `changes` made."""
        return Attributes({**self._values, **changes})


NO_ATTRIBUTES = Attributes()


@dataclass(eq=False)
class Node:
    """One operator call, input or constant.

    Parameters
    ----------
    number
        Creation number, unique in its graph; not a topological index.
    op
        Operator name, or ``input`` or ``constant``.
    operands
        Values read, flat.
    grouping
        How the operands form the call's arguments.
    outputs
        Type of each result.
    returns_tuple
        Whether the operator returns a tuple (even of one).
    payload
        A constant's array, or the front end's object for a call that is not a plain operator.
    name
        Name of the node in the model the graph came from; empty when unknown.
    """

    number: int
    op: str
    attrs: Attributes
    operands: tuple[Value, ...]
    grouping: Grouping
    outputs: tuple[TensorType, ...]
    returns_tuple: bool = False
    payload: Any = None
    name: str = ""
    _values: tuple[Value, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        self._values = tuple(Value(self, index) for index in range(len(self.outputs)))

    def __getitem__(self, index: int) -> Value:
        return self._values[index]

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values)

    @property
    def is_call(self) -> bool:
        """Whether the node computes something."""
        return self.op not in (INPUT, CONSTANT)

    @property
    def bytes_out(self) -> int:
        """Bytes of all results: DNNFusion's *intermediate result size*."""
        return sum(output.bytes for output in self.outputs)

    def __repr__(self) -> str:
        reads = ", ".join(f"%{value.node.number}" for value in self.operands)
        types = ", ".join(str(output) for output in self.outputs)
        return f"%{self.number} = {self.op}({reads}) : {types}"


@dataclass(frozen=True, eq=False, repr=False)
class Value:
    """One result of a node."""

    node: Node
    index: int

    @property
    def type(self) -> TensorType:
        """Shape and dtype."""
        return self.node.outputs[self.index]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, outermost first."""
        return self.type.shape

    @property
    def dtype(self) -> str:
        """Element type."""
        return self.type.dtype

    @property
    def op(self) -> str:
        """Name of the operator that makes this value."""
        return self.node.op

    @property
    def is_constant(self) -> bool:
        """Whether the value is known at compile time."""
        return self.node.op == CONSTANT

    @property
    def array(self) -> np.ndarray:
        """The constant's array; only for constants."""
        assert self.is_constant, self
        array: np.ndarray = self.node.payload
        return array

    def __repr__(self) -> str:
        suffix = f".{self.index}" if self.node.returns_tuple else ""
        return f"%{self.node.number}{suffix}"
