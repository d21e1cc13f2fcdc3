from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_fusionx.report.bench.plain_tvm import build_plain
from tvm_fusionx.report.verify.conditioning import conditioning, library_conditioning

ONES = {"x": np.ones((4, 8), np.float32)}
ULP = float(np.finfo(np.float32).eps)


def test_the_identity_moves_by_one_unit_in_the_last_place() -> None:
    moved = conditioning(lambda arrays: [arrays["x"]], ONES)
    assert ULP / 2 <= moved <= ULP


def test_a_cancellation_amplifies_rounding() -> None:
    moved = conditioning(lambda arrays: [(arrays["x"] - 1) + np.float32(0.001)], ONES)
    assert moved > 50 * ULP


def test_a_constant_model_does_not_move() -> None:
    assert conditioning(lambda _: [np.ones(3, np.float32)], ONES) == 0.0


def test_integers_and_what_is_not_finite_are_left_alone_and_the_inputs_too() -> None:
    arrays = {"ids": np.arange(5), "x": np.array([0, 1, np.inf, -np.inf, np.nan], np.float32)}
    seen = []

    def run(given: dict[str, np.ndarray]) -> list[np.ndarray]:
        seen.append(given)
        return [np.nan_to_num(given["x"])]

    conditioning(run, arrays, trials=1)
    assert len(seen) == 2
    np.testing.assert_array_equal(seen[1]["ids"], np.arange(5))
    assert (seen[1]["x"][:2] != arrays["x"][:2]).all()
    np.testing.assert_array_equal(seen[1]["x"][2:], arrays["x"][2:])
    np.testing.assert_array_equal(arrays["x"][:2], [0, 1])
    assert seen[1]["x"].dtype == np.float32


def test_numbers_that_lie_in_a_narrower_type_move_by_its_step() -> None:
    step = 2.0**-10
    moved = conditioning(lambda arrays: [arrays["x"]], ONES, step=step)
    assert moved == pytest.approx(step, rel=1e-3)


def test_the_largest_number_of_a_mask_stays_one() -> None:
    limits = np.finfo(np.float32)
    arrays = {"mask": np.array([limits.min, limits.max, -np.inf, np.nan, 1], np.float32)}
    seen = []

    def run(given: dict[str, np.ndarray]) -> list[np.ndarray]:
        seen.append(given["mask"])
        return [np.ones(1, np.float32)]

    conditioning(run, arrays, trials=4, step=2.0**-10)
    for moved in seen[1:]:
        np.testing.assert_array_equal(np.isfinite(moved), [True, True, False, False, True])
        np.testing.assert_array_equal(moved[2:4], arrays["mask"][2:4])
        assert moved[4] != 1


def test_a_repeated_call_gives_the_same_number() -> None:
    values = {"x": np.linspace(-3, 3, 64, dtype=np.float32)}

    def run(given: dict[str, np.ndarray]) -> list[np.ndarray]:
        return [np.exp(given["x"])]

    assert conditioning(run, values) == conditioning(run, values)


def test_another_number_of_outputs_is_an_error() -> None:
    outputs = iter([[np.ones(2, np.float32)], []])
    with pytest.raises(ValueError, match="zip"):
        conditioning(lambda _: next(outputs), ONES)


def test_the_weights_of_a_library_move_too() -> None:
    x = relay.var("x", shape=(2, 3))
    weight = relay.const(np.full((2, 3), 1.0, np.float32))
    module = tvm.IRModule.from_expr(relay.Function([x], x - weight + relay.const(np.float32(0.01))))
    library = build_plain(module, "llvm", opt_level=0)
    by_input = conditioning(lambda arrays: [arrays["x"] - 1 + np.float32(0.01)], {"x": ONES["x"]})
    assert library_conditioning(library, {"x": np.ones((2, 3), np.float32)}) > 1.2 * by_input
