from __future__ import annotations

import pytest

from tests.runtime.pool_model import MISTAKES, BrokenError, explore

# Jobs of each caller, by their shares; and workers.
POOLS = [
    (((2, 2, 2),), 1),
    (((2,), (2,)), 1),
    (((2,),), 2),
]


@pytest.mark.parametrize(("jobs", "workers"), POOLS)
def test_no_interleaving_loses_a_task_or_waits_for_ever(
    jobs: tuple[tuple[int, ...], ...], workers: int
) -> None:
    assert explore(jobs, workers) > 1000


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_is_found(mistake: str) -> None:
    found = 0
    for jobs, workers in POOLS:
        try:
            explore(jobs, workers, mistake)
        except BrokenError:
            found += 1
    assert found
