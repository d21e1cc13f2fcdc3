from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, check, floats, ints

X, Y = floats(2, 3, 4), floats(3, 1, seed=1)
POSITIVE = np.abs(X) + 0.5
SMALL = np.clip(X, -0.9, 0.9)
WHOLE = ints(-7, -3, 0, 5, 9)
DIVISORS = ints(3, -2, 4, -5, 2)


def test_functions_of_one_input_agree_with_the_reference() -> None:
    plain = ["Abs", "Atan", "Ceil", "Cos", "Exp", "Floor", "Neg", "Reciprocal", "Sign", "Sin"]
    cases = [Case(op_type, [X]) for op_type in plain]
    cases += [Case(op_type, [SMALL]) for op_type in ("Acos", "Asin", "Atanh", "Tan", "Sinh")]
    cases += [Case(op_type, [POSITIVE]) for op_type in ("Sqrt", "Log", "Asinh")]
    cases += [Case("Not", [X > 0]), Case("BitwiseNot", [WHOLE]), Case("Sigmoid", [X])]
    check(cases)


def test_functions_of_two_inputs_agree_with_the_reference() -> None:
    cases = [Case(op_type, [X, Y]) for op_type in ("Add", "Sub", "Mul", "Div", "Max", "Min")]
    comparisons = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
    cases += [Case(op_type, [X, Y]) for op_type in comparisons]
    cases += [Case(op_type, [X > 0, Y > 0]) for op_type in ("And", "Or", "Xor")]
    cases += [Case(f"Bitwise{name}", [WHOLE, DIVISORS]) for name in ("And", "Or", "Xor")]
    cases += [Case("Where", [X > 0, X, Y]), Case("Sum", [X, Y, X]), Case("Mean", [X, Y, X])]
    shift = [np.array([16, 4, 1], "uint8"), np.array([1, 2, 3], "uint8")]
    cases += [Case("BitShift", shift, {"direction": side}) for side in ("LEFT", "RIGHT")]
    check(cases)


def test_integer_division_truncates_toward_zero() -> None:
    quotients = ints(-2, 1, 0, -1, 4)
    check([Case("Div", [WHOLE, DIVISORS], expected=[quotients])])


def test_modulo_takes_the_sign_asked_for() -> None:
    check(
        [
            Case("Mod", [WHOLE, DIVISORS]),
            Case("Mod", [WHOLE, DIVISORS], {"fmod": 1}),
            Case("Mod", [X, POSITIVE], {"fmod": 1}),
            Case("Mod", [np.array([7, 9], "uint8"), np.array([4, 2], "uint8")]),
        ]
    )


def test_powers_agree_with_the_reference() -> None:
    check(
        [
            Case("Pow", [X, np.float32(2.0)], known=[1]),
            Case("Pow", [X, np.float32(3.0)], known=[1]),
            Case("Pow", [POSITIVE, np.float32(0.3)], known=[1]),
            Case("Pow", [POSITIVE, X]),
            Case("Pow", [ints(1, 2, 3), ints(4, 5, 6)]),
            Case("Pow", [ints(1, 2, 3), np.array([2.0, 0.5, 1.0], "float32")]),
        ]
    )


def test_rounding_moves_halves_to_the_even_number() -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.49, 0.5, 1.5, 2.5, 1e9], "float32")
    check([Case("Round", [x], expected=[np.round(x)])])


def test_infinities_of_one_sign() -> None:
    x = np.array([-np.inf, -1.0, np.nan, np.inf], "float32")
    check(
        [
            Case("IsInf", [x]),
            Case("IsInf", [x], {"detect_negative": 0}),
            Case("IsInf", [x], {"detect_positive": 0}),
            Case("IsNaN", [x]),
        ]
    )


@pytest.mark.parametrize("known", [(), (1,), (2,), (1, 2)], ids=str)
def test_clip_keeps_each_bound_constant_or_computed(known: tuple[int, ...]) -> None:
    low, high = np.float32(-0.5), np.float32(0.25)
    check(
        [
            Case("Clip", [X, low, high], known=known, expected=[np.clip(X, low, high)]),
            Case("Clip", [X, low], known=known, expected=[np.maximum(X, low)]),
            Case("Clip", [X, None, high], known=known, expected=[np.minimum(X, high)]),
        ]
    )


def test_clip_of_integers_and_of_crossed_bounds() -> None:
    check(
        [
            Case("Clip", [WHOLE, ints(-4)[0], ints(6)[0]], known=[1, 2]),
            Case("Clip", [X, np.float32(1), np.float32(-1)], known=[1, 2], expected=[X * 0 - 1]),
        ]
    )


def test_old_opsets_align_operands_by_an_attribute() -> None:
    b = floats(3, seed=2)
    expected = X + b[None, :, None]
    check([Case("Add", [X, b], {"broadcast": 1, "axis": 1}, expected=[expected])], opset=6)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("known", [[], [1]])
def test_shifts_past_the_width_leave_the_sign(direction: str, known: list[int]) -> None:
    x = np.array([-8, -1, 5, 127, -128, 3], "int8")
    counts = np.array([1, 7, 2, 8, 100, -1], "int8")
    unsigned = [x.view("uint8"), np.array([1, 7, 2, 8, 100, 0], "uint8")]
    if direction == "LEFT":
        results = [-16, -128, 20, 0, 0, 0], [240, 128, 20, 0, 0, 3]
    else:
        results = [-4, -1, 1, 0, -1, 0], [124, 1, 1, 0, 0, 3]
    expected = [np.array(r, dtype) for r, dtype in zip(results, ("int8", "uint8"), strict=True)]
    check(
        [
            Case("BitShift", inputs, {"direction": direction}, known=known, expected=[wanted])
            for inputs, wanted in zip(([x, counts], unsigned), expected, strict=True)
        ],
        28,
    )
