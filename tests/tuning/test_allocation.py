from __future__ import annotations

import math

import pytest

from tests.tuning.small_tasks import made_up_task, relu_task
from tvm_fusionx.tuning.allocation import Progress, least_seconds, next_task, shares
from tvm_fusionx.tuning.peak import Peak


def _progress(key: str, seconds: float, count: int = 1, least: float = 0.0) -> Progress:
    return Progress(made_up_task(key, count=count), seconds, least)


def test_the_block_that_takes_longest_goes_first() -> None:
    small, large = _progress("small", 1.0), _progress("large", 0.4, count=3)
    assert next_task([small, large]) is large
    assert shares([small, large]) == {
        "small": pytest.approx(1 / 2.2),
        "large": pytest.approx(1.2 / 2.2),
    }


def test_a_block_at_the_machines_limit_goes_last() -> None:
    done, open_ = _progress("done", 1.0, least=0.99), _progress("open", 0.1, least=0.02)
    assert done.headroom == pytest.approx(0.01)
    assert next_task([done, open_]) is open_


def test_rounds_without_progress_count_against_a_block() -> None:
    first, second = _progress("first", 1.0), _progress("second", 0.6)
    first.add_round(0.999, 8)
    assert first.fruitless_rounds == 1
    assert next_task([first, second]) is second
    first.add_round(0.5, 8)
    assert (first.fruitless_rounds, first.now, first.trials) == (0, 0.5, 16)


def test_nothing_is_left_of_exhausted_failed_and_fixed_blocks() -> None:
    exhausted = _progress("exhausted", 1.0)
    exhausted.is_exhausted = True
    failed = _progress("failed", math.inf)
    assert next_task([exhausted, failed, Progress(relu_task(), 1.0)]) is None
    assert failed.expected_seconds == 0.0


def test_the_limit_is_arithmetic_or_memory() -> None:
    task = made_up_task()
    assert least_seconds(task, None) == 0.0
    assert least_seconds(task, Peak(1e6, 1e12)) == pytest.approx(1.0)
    assert least_seconds(task, Peak(1e12, 4096)) == pytest.approx(1.0)
