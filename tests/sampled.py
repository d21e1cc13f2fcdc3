"""Which of many like cases the fast suite runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def few_fast(cases: Iterable[Any], fast: int = 2) -> list[Any]:
    """Return every case; all but the first `fast` of them are slow."""
    return few_fast_rows(([case] for case in cases), fast)


def few_fast_rows(rows: Iterable[Sequence[Any]], fast: int = 2) -> list[Any]:
    """Return every row, the values of several parameters; all but the first `fast` are slow."""
    return [
        pytest.param(*row, marks=[] if place < fast else pytest.mark.slow)
        for place, row in enumerate(rows)
    ]
