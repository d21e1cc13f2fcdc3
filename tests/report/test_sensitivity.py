from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.report.sensitivity import rounding_sensitivity

ONES = {"x": np.ones((4, 8), np.float32)}
ULP = float(np.finfo(np.float32).eps)


def test_the_identity_moves_by_one_unit_in_the_last_place() -> None:
    moved = rounding_sensitivity(lambda inputs: [inputs["x"]], ONES)
    assert ULP / 2 <= moved <= ULP


def test_a_cancellation_amplifies_rounding() -> None:
    moved = rounding_sensitivity(lambda inputs: [(inputs["x"] - 1) + np.float32(0.001)], ONES)
    assert moved > 50 * ULP


def test_a_constant_model_does_not_move() -> None:
    assert rounding_sensitivity(lambda _: [np.ones(3, np.float32)], ONES) == 0.0


def test_integers_are_left_alone_and_the_inputs_too() -> None:
    inputs = {"ids": np.arange(5), "x": np.zeros(5, np.float32)}
    seen = []

    def run(given: dict[str, np.ndarray]) -> list[np.ndarray]:
        seen.append(given)
        return [given["x"] + 1]

    rounding_sensitivity(run, inputs, trials=1)
    assert len(seen) == 2
    np.testing.assert_array_equal(seen[1]["ids"], np.arange(5))
    assert not np.array_equal(seen[1]["x"], inputs["x"])
    assert not inputs["x"].any()


def test_a_repeated_call_gives_the_same_number() -> None:
    values = {"x": np.linspace(-3, 3, 64, dtype=np.float32)}

    def run(given: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [np.exp(given["x"])]

    assert rounding_sensitivity(run, values) == rounding_sensitivity(run, values)


def test_another_number_of_outputs_is_an_error() -> None:
    outputs = iter([[np.ones(2, np.float32)], []])
    with pytest.raises(ValueError, match="zip"):
        rounding_sensitivity(lambda _: next(outputs), ONES)
