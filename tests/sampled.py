"""Which of many like cases the fast suite runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def few_fast(cases: Iterable[Any], fast: int = 2) -> list[Any]:
    """Return every case; all but the first `fast` of them are slow."""
    return [
        case if place < fast else pytest.param(case, marks=pytest.mark.slow)
        for place, case in enumerate(cases)
    ]
