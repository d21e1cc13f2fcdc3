from __future__ import annotations

import math

import pytest

from tvm_fusionx.tuning.outcome import DEVICE_LOST, INTERRUPTED, TIMEOUT, Outcome


@pytest.mark.parametrize("kind", [DEVICE_LOST, TIMEOUT, INTERRUPTED])
def test_what_takes_the_device_is_quarantined(kind: str) -> None:
    assert Outcome(failure=kind).is_quarantined


@pytest.mark.parametrize("kind", [None, "run", "wrong result"])
def test_nothing_else_is(kind: str | None) -> None:
    assert not Outcome(failure=kind).is_quarantined


def test_the_least_time_counts() -> None:
    assert Outcome((2.0, 1.0, 3.0)).least_seconds == 1.0
    assert Outcome(failure="run").least_seconds == math.inf
