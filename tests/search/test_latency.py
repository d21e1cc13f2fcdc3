from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.counting.test_emulator import require_counting
from tests.search.filled_database import estimator_for, fill, time_of
from tests.search.small_spaces import one_stage
from tvm_fusionx.errors import TuningError
from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.search.clocks import CountingClock, HostClock
from tvm_fusionx.search.latency import (
    Check,
    LatencyEstimator,
    latency_of,
    median_error,
    why_slow,
)


def test_it_is_the_sum_of_its_kernels_and_launches(tmp_path: Path) -> None:
    candidate = one_stage().sample(random.Random(0))
    estimator = estimator_for(ProfileDatabase(tmp_path / "p.sqlite"))
    fill(estimator, [candidate])
    keys = [use.key for use in estimator.planner.plan(candidate).uses]
    expected = sum(map(time_of, keys))
    assert estimator.latency_of(candidate).microseconds == pytest.approx(expected)
    estimator.launch_us = 2.0
    found = estimator.latency_of(candidate)
    assert found.microseconds == pytest.approx(expected + 2 * len(keys))
    assert found.is_composed
    assert sum(us for _, us in found.by_layer()) == pytest.approx(found.microseconds)
    assert [kernel.key for kernel in found.kernels] == keys
    slowest = max(found.by_layer(), key=lambda row: row[1])
    assert why_slow(found, 1).startswith(slowest[0])


def test_another_process_needs_no_plan_of_known_layers(tmp_path: Path) -> None:
    candidate = one_stage().sample(random.Random(0))
    database = ProfileDatabase(tmp_path / "p.sqlite")
    first = estimator_for(database)
    fill(first, [candidate])
    second = estimator_for(database)
    second.planner.contexts.update(first.planner.contexts)
    assert second.latency_of(candidate).is_composed
    assert second.planner.planned == 0


def test_equal_kernels_are_built_once_and_kept(tmp_path: Path) -> None:
    candidate = next(iter(one_stage().every()))
    database = ProfileDatabase(tmp_path / "p.sqlite")
    estimator = LatencyEstimator(HostClock(), database)
    found = estimator.latency_of(candidate)
    assert 0 < found.microseconds < float("inf")
    assert estimator.timed == len({kernel.key for kernel in found.kernels})
    again = LatencyEstimator(HostClock(), tmp_path / "p.sqlite")
    assert again.latency_of(candidate).microseconds == found.microseconds
    assert again.timed == 0


def test_a_launch_is_what_whole_candidates_take_beyond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = one_stage()
    candidates = [space.sample(random.Random(seed)) for seed in range(3)]
    estimator = estimator_for(ProfileDatabase(tmp_path / "p.sqlite"))
    fill(estimator, candidates)
    alone = [estimator.latency_of(each) for each in candidates]
    whole = {
        id(c): f.microseconds + 3 * len(f.kernels) for c, f in zip(candidates, alone, strict=True)
    }
    monkeypatch.setattr(estimator, "measure", lambda candidate: whole[id(candidate)])
    assert estimator.calibrate(candidates[:2]) == pytest.approx(3.0)
    check = estimator.check(candidates[2])
    assert check.error == pytest.approx(0, abs=1e-9)
    monkeypatch.setattr(estimator, "measure", lambda candidate: float("inf"))
    with pytest.raises(TuningError, match="none of 2"):
        estimator.calibrate(candidates[:2])


def test_errors() -> None:
    checks = [Check(9.0, 10.0, 1), Check(10.0, 10.0, 1), Check(15.0, 10.0, 1)]
    assert median_error(checks) == pytest.approx(0.1)


@pytest.mark.slow
def test_counts_of_kernels_add_up_to_those_of_the_whole(tmp_path: Path) -> None:
    require_counting()
    # Large enough for what TVM's executor does for a longer graph, which no kernel has.
    every = list(one_stage(side=32).every())
    # The same first layer and classes; the second layer is what no launch was measured by.
    calibrating, held_out = every[0], next(c for c in every if c["choices"]["stage0.depth"] == 2)
    database = ProfileDatabase(tmp_path / "p.sqlite")
    estimator = LatencyEstimator(CountingClock(), database)
    estimator.calibrate([calibrating])
    assert estimator.check(held_out).error < 0.01
    kernels = estimator.latency_of(held_out).kernels
    again = latency_of(held_out, "count:cortex-a76", database)
    assert again.microseconds == pytest.approx(sum(each.microseconds for each in kernels))
