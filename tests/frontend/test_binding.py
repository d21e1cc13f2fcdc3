from __future__ import annotations

from tests.relay_modules import const, var
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.binding import (
    DATA,
    asks_to_bind,
    how_to_bind,
    inputs_behind,
    is_bindable,
    left_to_run_time,
    origin,
)

PICTURE, SIZE, RATE = var("x", 1, 3, 8, 8), var("size", 2), var("sr", dtype="int64")


def test_inputs_are_found_behind_what_is_computed_from_them() -> None:
    assert inputs_behind(SIZE * const(2) + const(1)) == [("size", (2,))]
    assert origin(const(2)) == "a value computed at run time"
    assert origin(SIZE) == "a value computed at run time from input 'size'"
    assert origin(SIZE + PICTURE).endswith("from inputs 'size', 'x'")


def test_the_flag_is_written_out() -> None:
    assert how_to_bind(SIZE) == (
        "Bind 'size': --constants size=[N,N], or from_onnx(model, constants={'size': array})."
    )
    assert "--constants sr=N," in how_to_bind(RATE)
    assert "--constants m=[[N,...]]," in how_to_bind(var("m", 1, 9))


def test_data_is_not_bound_by_hand() -> None:
    assert how_to_bind(PICTURE) == DATA
    assert "'x'" not in how_to_bind(PICTURE + SIZE)


def test_numbers_may_be_left_to_the_run_time() -> None:
    assert is_bindable(RATE)
    with left_to_run_time():
        assert not is_bindable(RATE)
    assert is_bindable(RATE)


def test_which_errors_ask_for_a_number() -> None:
    words = {"expected": "numbers", "found": "none"}
    bound = UnsupportedOperatorError("x", **words, next_step=how_to_bind(SIZE))
    assert asks_to_bind(bound)
    assert not asks_to_bind(UnsupportedOperatorError("x", **words, next_step=DATA))
