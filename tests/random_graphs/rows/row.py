"""What is written down about one operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.random_graphs.builder import GraphBuilder

OLDEST_OPSET = 11
NEWEST_OPSET = 18


@dataclass(frozen=True)
class Row:
    """One operator: how to draw its operands and attributes, and where it exists."""

    operator: str
    """ONNX operator type."""

    draw: Callable[[GraphBuilder], object]
    """Adds one node of it to the graph, or raises RejectedError."""

    since: int = OLDEST_OPSET
    """First opset with this operator, in the form drawn here."""

    weight: float = 1.0
    """How often it is drawn, relative to others."""
