from __future__ import annotations

from tests.relay_modules import const, var
from tvm_fusionx.frontend.binding import DATA, how_to_bind, inputs_behind, origin

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
