"""Every ONNX operator the generator knows, one row each."""

from __future__ import annotations

from tests.random_graphs.rows import elementwise, matrices, movement, reductions, windows
from tests.random_graphs.rows.row import Row

ROWS: tuple[Row, ...] = (
    *elementwise.ROWS,
    *movement.ROWS,
    *reductions.ROWS,
    *matrices.ROWS,
    *windows.ROWS,
)

__all__ = ["ROWS", "Row"]
