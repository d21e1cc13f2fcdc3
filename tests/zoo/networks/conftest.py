"""The same random numbers for a test, whichever ran before it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    pytest.importorskip("torch").manual_seed(0)
