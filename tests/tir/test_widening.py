"""Bytes that stages widen: which byte buffer, what is added, and what is something else."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relay, tir

from tests.relay_modules import var
from tests.schedules.blocked_blocks import describe
from tvm_fusionx.tir.widening import Widening, find_widening


def _bytes(dtype: str = "uint8") -> Any:
    return relay.cast(var("x", 4, 16, dtype=dtype), "int16")


def _found(body: Any) -> Widening | str:
    info = describe(body)
    (last,) = info.outputs
    (buffer,) = info.stages[last].writes
    return find_widening(info, buffer, info.upstream(last) | {last})


@pytest.mark.parametrize(
    ("body", "added", "subtracted", "stages"),
    [
        (_bytes(), [], [], 1),
        (_bytes("int8"), [], [], 1),
        (_bytes() - relay.const(7, "int16"), [], [7], 2),
        (_bytes() + relay.const(-3, "int16") + relay.const(1, "int16"), [1, -3], [], 3),
    ],
)
def test_what_is_added_to_which_bytes(
    body: Any, added: list[int], subtracted: list[int], stages: int
) -> None:
    found = _found(body)
    assert isinstance(found, Widening)
    assert (found.source.name, len(found.stages)) == ("x", stages)
    assert [int(each) for each in found.added] == added
    assert [int(each) for each in found.subtracted] == subtracted


def test_a_number_may_be_a_parameter() -> None:
    found = _found(_bytes() + var("zero", dtype="int16"))
    assert isinstance(found, Widening)
    assert [each.buffer.name for each in found.added] == ["zero"]


@pytest.mark.parametrize(
    ("body", "because"),
    [
        (relay.cast(var("x", 4, 16, dtype="int32"), "int16"), "made of int32"),
        (_bytes() * relay.const(2, "int16"), "does not widen"),
        (relay.transpose(_bytes()), "does not widen"),
        (relay.cast(relay.cast(var("x", 4, 16, dtype="uint8"), "float32"), "int16"), "not widen"),
        (_bytes() - relay.const(-1, "int16") * _bytes(), "does not widen"),
        (_bytes() + var("zeros", 16, dtype="int16"), "does not widen"),
    ],
)
def test_other_stages_do_not_widen(body: Any, because: str) -> None:
    assert because in str(_found(body))


def test_stages_beside_are_not_left_out() -> None:
    info = describe(relay.nn.relu(_bytes()))
    (last,) = info.outputs
    (first,) = info.producers[last]
    (buffer,) = info.stages[first].writes
    assert isinstance(find_widening(info, buffer, {first}), Widening)
    assert "something else" in str(find_widening(info, buffer, {first, last}))


@pytest.mark.parametrize("lanes", [1, 8])
def test_vectors_are_widened_in_the_type_of_the_sums(lanes: int) -> None:
    kind = "int32" if lanes == 1 else f"int32x{lanes}"
    loaded = tir.const(200, kind.replace("int32", "uint8"))
    five = tir.const(5, "int16")
    assert Widening(None, (), (five,), ()).of(loaded, kind).dtype == kind
    assert Widening(None, (five,), (), ()).of(loaded, kind).dtype == kind
    assert Widening(None, (), (), ()).of(loaded, kind).dtype == kind
