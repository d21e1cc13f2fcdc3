from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_fusionx.search.journal import Result
from tvm_fusionx.search.reward import SOFT_EXPONENT, Reward, front_area, pareto_front

NOTHING: dict[str, Any] = {"family": "f", "fixed": {}, "choices": {}}


def _result(accuracy: float, latency: float) -> Result:
    return Result(NOTHING, accuracy=accuracy, latency_us=latency)


def test_a_hard_limit_is_a_wall() -> None:
    reward = Reward(100.0)
    assert reward(_result(0.8, 100.0)) == 0.8
    assert reward(_result(0.8, 100.1)) == 0
    assert not reward.allows(100.1)
    assert reward(_result(math.nan, 1.0)) == 0


def test_a_soft_limit_is_a_slope() -> None:
    reward = Reward(100.0, SOFT_EXPONENT)
    assert reward(_result(0.8, 100.0)) == pytest.approx(0.8)
    # What MnasNet chose the exponent for.
    assert reward(_result(0.8, 200.0)) == pytest.approx(0.8 * 0.95, rel=0.01)
    assert reward(_result(0.8, 50.0)) > 0.8
    assert reward.allows(1e6)
    assert not reward.allows(math.inf)


def test_without_a_limit_accuracy_counts() -> None:
    assert Reward()(_result(0.3, 1e9)) == 0.3
    assert Reward().is_unlimited


def test_the_fastest_that_is_accurate_enough_is_worth_most() -> None:
    reward = Reward(1000.0, least_accuracy=0.7)
    rows = [(0.9, 2000.0), (0.4, 10.0), (0.69, 500.0), (0.9, 300.0), (0.7, 200.0)]
    worth = [reward(_result(*row)) for row in rows]
    assert worth == sorted(worth)
    assert worth[0] == 0
    assert [reward.meets(_result(*row)) for row in rows] == [False, False, False, True, True]


def test_of_the_front_each_is_worth_mnasnets_product() -> None:
    reward = Reward(is_front=True)
    assert reward(_result(0.8, 1000.0)) == pytest.approx(0.8)
    assert reward(_result(0.8, 2000.0)) == pytest.approx(0.8 * 2**SOFT_EXPONENT)
    assert reward.meets(_result(0.1, 9.0))


@pytest.mark.parametrize(
    "further",
    [
        {"least_accuracy": 1.5},
        {"least_accuracy": 0.5, "is_front": True},
        {"limit_us": 9.0, "exponent": -0.1, "is_front": True},
    ],
)
def test_two_wishes_at_once_are_refused(further: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Choose one"):
        Reward(**further)


@pytest.mark.parametrize("arguments", [(0.0, 0.0), (1.0, 0.1), (math.inf, -0.07)])
def test_wrong_rewards_are_refused(arguments: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="reward"):
        Reward(*arguments)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 6)), max_size=12))
def test_nothing_beats_the_front_and_the_front_beats_the_rest(rows: list[tuple[int, int]]) -> None:
    results = [_result(accuracy / 6, float(latency)) for accuracy, latency in rows]
    front = pareto_front(results)

    def beats(a: Result, b: Result) -> bool:
        better = a.accuracy > b.accuracy or a.latency_us < b.latency_us
        return a.accuracy >= b.accuracy and a.latency_us <= b.latency_us and better

    assert not any(beats(a, b) for a in results for b in front)
    kept = {(each.accuracy, each.latency_us) for each in front}
    for each in results:
        if (each.accuracy, each.latency_us) not in kept:
            assert any(beats(a, each) for a in front)
    assert [each.latency_us for each in front] == sorted(each.latency_us for each in front)


def test_below_its_floor_nothing_is_worth_anything() -> None:
    reward = Reward(is_front=True, floor=0.5)
    assert reward(_result(0.5, 10.0)) == 0
    assert not reward.meets(_result(0.5, 10.0))
    assert reward(_result(0.51, 10.0)) == Reward(is_front=True)(_result(0.51, 10.0)) > 0


@pytest.mark.parametrize("wrong", [{"floor": 0.5}, {"floor": 1.0, "is_front": True}])
def test_a_floor_is_the_fronts_alone(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="floor"):
        Reward(**wrong)


def test_the_area_is_that_under_the_steps_above_the_floor() -> None:
    rows = [(0.5, 100.0), (0.4, 150.0), (0.9, 400.0), (0.95, 9000.0)]
    results = [_result(*row) for row in rows]
    # Two doublings at 0.5, one at 0.9; what is slower than the slowest adds nothing.
    assert front_area(results, 800.0) == pytest.approx(2 * 0.5 + 0.9)
    assert front_area(results, 800.0, 0.45) == pytest.approx(2 * 0.05 + 0.45)
    # What is not above the floor adds nothing, and takes nothing from others.
    assert front_area(results, 800.0, 0.5) == pytest.approx(0.4)
    assert front_area([], 800.0) == 0
    assert front_area(results[3:], 800.0) == 0
