"""Converters of operators that ONNX Runtime defines: nothing a node says is left unread.

A converter takes a :class:`SchemaNode`, whose attributes have the schema's defaults. It must read
every input and every attribute that the node gives, or refuse it by name: what nobody read would
have changed the numbers in ONNX Runtime and not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_fusionx.frontend.contrib_schemas import Schema, contrib_schemas
from tvm_fusionx.frontend.converters.registry import Convert, converter
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.schemas import defaults_of, schema_of
from tvm_fusionx.frontend.values import Tensor

# As new as any definition: what is written here follows the newest ones.
NEWEST = 22

# ONNX Runtime defines these once, whatever version of its own operators a model imports.
ONCE = 1
# Those that it keeps among ONNX's own operators meet any of ONNX's versions.
ANY = 1 << 30

# Attributes that tell a runtime how to compute, and never what.
HINTS = frozenset({"accuracy_level"})


class SchemaNode(Node):
    """A node checked against its schema, with the schema's defaults."""

    def __init__(self, node: Node, schema: Schema) -> None:
        found = schema.why_not(node.attributes, [value is not None for value in node.inputs])
        if found is not None:
            raise node.refuse(*found)
        super().__init__(
            node.name,
            node.op_type,
            node.version,
            schema.complete(node.attributes),
            node.inputs,
            node.outputs,
            node.input_names,
        )
        self._schema = schema
        self._given = dict(node.attributes)
        self._read_attributes: set[str] = set()
        self._read_inputs: set[int] = set()

    def as_standard(
        self, op_type: str, inputs: Sequence[Tensor | None], attributes: Mapping[str, Any]
    ) -> Node:
        """Return this call as one of ONNX's own operator, for that operator's converter."""
        names = [""] * len(inputs)
        defaults = defaults_of(schema_of(op_type, "", NEWEST))
        return Node(self.name, op_type, NEWEST, attributes, inputs, self.outputs, names, defaults)

    def attributes_named(self, *names: str) -> dict[str, Any]:
        """Return those of the named attributes that the node or its schema sets."""
        values = {name: self.attribute(name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or the schema's default."""
        self._read_attributes.add(name)
        return super().attribute(name, default)

    def tensor(self, position: int) -> Tensor:
        """Return the input at `position`, which must be a tensor."""
        self._read_inputs.add(position)
        return super().tensor(position)

    @property
    def input_roles(self) -> tuple[str, ...]:
        """The names that the schema has for inputs."""
        return tuple(name.rstrip("?*") for name in self._schema.inputs)

    def position(self, name: str) -> int:
        """Return where the input of that name stands in the schema."""
        return self._schema.position(name)

    def gives(self, name: str) -> bool:
        """Tell whether the optional input of that name is given."""
        return self.has(self.position(name))

    def named(self, name: str) -> Tensor:
        """Return the input of that name."""
        return self.tensor(self.position(name))

    def maybe(self, name: str) -> Tensor | None:
        """Return the optional input of that name, or None where it is left out."""
        return self.named(name) if self.gives(name) else None

    def expects(self, name: str, *values: Any) -> Any:
        """Return an attribute that must be one of `values`.

        Raises
        ------
        UnsupportedOperatorError
            For any other value.
        """
        value = self.attribute(name)
        if value not in values:
            listed = " or ".join(repr(allowed) for allowed in values)
            raise self.refuse(f"the attribute {name!r} to be {listed}", repr(value))
        return value

    def check_all_read(self) -> None:
        """Refuse what the node gives and its converter never looked at."""
        for name, value in self._given.items():
            default = self._schema.attributes[name].default
            if name not in self._read_attributes | HINTS and value != default:
                raise self.refuse(
                    f"the attribute {name!r} at its default, {default!r}", repr(value)
                )
        for position, value in enumerate(self.inputs):
            if value is not None and position not in self._read_inputs:
                name = self._schema.inputs[position].rstrip("?")
                raise self.refuse(f"no input {name!r}", f"{self.input_names[position]!r} for it")

    def check_all_made(self, results: list[Any]) -> None:
        """Refuse outputs that the graph uses and the converter does not make."""
        for position, output in enumerate(self.outputs):
            if output and (position >= len(results) or results[position] is None):
                known = self._schema.outputs
                name = known[position].rstrip("?") if position < len(known) else "an output more"
                raise self.refuse(f"no use of the output {name!r}", repr(output))


def microsoft(*op_types: str, domain: str = "com.microsoft") -> Callable[[Any], Any]:
    """Register a function as the converter of operators of `domain`, all at version 1."""
    names = [f"{domain}.{op_type}" if domain else op_type for op_type in op_types]

    def register(function: Callable[[SchemaNode], Any]) -> Callable[[SchemaNode], Any]:
        convert: Convert = checked(function)
        converter(*names, through=ONCE if domain else ANY)(convert)
        return function

    return register


def checked(function: Callable[[SchemaNode], Any]) -> Convert:
    """Return a converter that completes the node, and holds the function to all it says."""

    def convert(node: Node) -> Any:
        complete = SchemaNode(node, contrib_schemas()[node.op_type])
        results = function(complete)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        complete.check_all_read()
        complete.check_all_made(results)
        return results

    return convert
