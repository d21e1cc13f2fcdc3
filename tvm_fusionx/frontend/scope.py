"""The values of one graph by name, and what runs a graph in them."""

from __future__ import annotations

from typing import Any, Protocol

from tvm_fusionx.errors import ModelError
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Value


class Scope:
    """Values by name; a subgraph's scope also sees its surroundings."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.values: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        raise ModelError(
            f"value {name!r}",
            expected="a node or an input that makes it",
            found="none",
            next_step="The graph is incomplete. Export or download the model again.",
        )

    def __setitem__(self, name: str, value: Value) -> None:
        self.values[name] = value


class Translator(Protocol):
    """What control flow asks of a translation."""

    def run_graph(self, graph: Any, scope: Scope, prefix: str = "") -> list[Value]:
        """Translate all nodes of `graph` into `scope` and return the graph's outputs."""

    def seal(
        self, node: Node, converted: Any, stand_ins: dict[Any, Any] | None = None
    ) -> list[Value]:
        """Turn what a converter returned into values with names and types."""
