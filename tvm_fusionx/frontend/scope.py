"""The values of one graph by name, and what runs a graph in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tvm_fusionx.errors import ModelError
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor, Value


class Scope:
    """Values by name; a subgraph's scope also sees its surroundings."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.values: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        scope: Scope | None = self
        while scope is not None:
            if scope.holds(name):
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

    def holds(self, name: str) -> bool:
        """Tell whether the value is this scope's own."""
        return name in self.values


class Translator(Protocol):
    """What control flow asks of a translation."""

    def run_graph(self, graph: Any, scope: Scope, prefix: str = "") -> list[Value]:
        """Translate all nodes of `graph` into `scope` and return the graph's outputs."""

    def seal(
        self, node: Node, converted: Any, stand_ins: dict[Any, Any] | None = None
    ) -> list[Value]:
        """Turn what a converter returned into values with names and types."""

    def inner_variable(self, name: str, dims: Sequence[int | None], dtype: str) -> Tensor:
        """Return a variable of a function of the module beside ``main``."""

    def define(
        self, name: str, params: Sequence[Any], results: Sequence[Any], types: Sequence[Any]
    ) -> Any:
        """Add a function that returns a tuple to the module; return its name, which has a type."""

    def declare(self, name: str, params: Sequence[Any], types: Sequence[Any]) -> Any:
        """Return the name of a function that is to follow."""

    def steer(self, variable: Any, params: Sequence[Any], body: Any) -> None:
        """Add a declared function whose body is control flow."""
