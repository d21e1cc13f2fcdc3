from __future__ import annotations

import math

import numpy as np
import pytest

from tests.search.small_spaces import transformers
from tvm_fusionx.search.expected_gain import Told, front_gain, gain
from tvm_fusionx.search.journal import Result
from tvm_fusionx.search.reward import Reward, front_area


def _told(*rows: tuple[float, float]) -> Told:
    accuracy, us = (np.array(column) for column in zip(*rows, strict=True))
    small = np.full(len(rows), 0.01)
    return Told(accuracy, small, np.log(us), small)


def _front() -> list[Result]:
    candidate = next(iter(transformers().every()))
    return [Result(candidate, 1.0, accuracy, us) for accuracy, us in ((0.6, 100.0), (0.8, 200.0))]


@pytest.mark.parametrize(
    ("reward", "rows", "best"),
    [
        (Reward(), [(0.75, 120.0), (0.85, 400.0)], 1),
        (Reward(150.0), [(0.66, 140.0), (0.85, 400.0)], 0),
        # As accurate a network for twice the limit is worth 5 % less.
        (Reward(150.0, -0.07), [(0.84, 150.0), (0.86, 300.0)], 0),
        (Reward(least_accuracy=0.7), [(0.61, 90.0), (0.85, 190.0), (0.75, 150.0)], 2),
        # 0.62 at 110 us joins the front; 0.78 at 210 us is beaten by what is there.
        (Reward(is_front=True), [(0.78, 210.0), (0.62, 110.0)], 1),
        # A network near chance that is faster than all is worth its speed, or nothing.
        (Reward(is_front=True), [(0.3, 12.0), (0.7, 100.0)], 0),
        (Reward(is_front=True, floor=0.55), [(0.3, 12.0), (0.7, 100.0)], 1),
    ],
)
def test_what_is_asked_for_decides(
    reward: Reward, rows: list[tuple[float, float]], best: int
) -> None:
    gains = gain(_told(*rows), _front(), reward)
    assert (gains >= 0).all()
    assert int(gains.argmax()) == best


@pytest.mark.parametrize(
    "row", [(0.7, 50.0), (0.7, 120.0), (0.9, 150.0), (0.5, 50.0), (0.7, 300.0)]
)
def test_what_is_certain_gains_what_the_area_grows_by(row: tuple[float, float]) -> None:
    front, slowest, floor = _front(), 400.0, 0.55
    (accuracy, us), candidate = row, _front()[0].candidate
    # The slowest that is known of is another candidate, of no accuracy.
    told = Told(
        np.array([accuracy, 0.0]), np.full(2, 1e-9), np.log([us, slowest]), np.full(2, 1e-9)
    )
    grown = front_area([*front, Result(candidate, 1.0, accuracy, us)], slowest, floor)
    found = front_gain(told, front, floor)
    assert found[0] == pytest.approx(grown - front_area(front, slowest, floor), abs=1e-6)
    assert found[1] == pytest.approx(0.0, abs=1e-6)


def test_without_a_front_all_above_the_floor_is_gained() -> None:
    told = Told(np.array([0.65, 0.8]), np.full(2, 1e-9), np.log([100.0, 400.0]), np.full(2, 1e-9))
    assert front_gain(told, [], 0.55) == pytest.approx([2 * 0.1, 0.0], abs=1e-6)
    assert math.isclose(front_gain(told, [], 0.0)[0], 2 * 0.65, abs_tol=1e-6)
