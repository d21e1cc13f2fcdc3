"""Seeded random ONNX graphs that are valid, tame in their numbers, and run in ONNX Runtime.

``generate(seed, size)`` gives the same model and inputs every time. Operators are rows of data in
:mod:`tests.random_graphs.rows`, shapes of real networks are in :mod:`tests.random_graphs.patterns`.
"""

from __future__ import annotations

from tests.random_graphs.builder import HALF, SINGLE, Precision
from tests.random_graphs.models import RandomModel, generate
from tests.random_graphs.rows import ROWS

__all__ = ["HALF", "ROWS", "SINGLE", "Precision", "RandomModel", "generate"]
