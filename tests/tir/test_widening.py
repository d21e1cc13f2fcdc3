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
    ("body", "offset", "stages"),
    [
        (_bytes(), 0, 1),
        (_bytes("int8"), 0, 1),
        (_bytes() - relay.const(7, "int16"), -7, 2),
        (_bytes() + relay.const(-3, "int16") + relay.const(1, "int16"), -2, 3),
    ],
)
def test_what_is_added_to_which_bytes(body: Any, offset: int, stages: int) -> None:
    found = _found(body)
    assert isinstance(found, Widening)
    assert (found.source.name, found.offset, len(found.stages)) == ("x", offset, stages)


@pytest.mark.parametrize(
    ("body", "because"),
    [
        (relay.cast(var("x", 4, 16, dtype="int32"), "int16"), "made of int32"),
        (_bytes() * relay.const(2, "int16"), "does not widen"),
        (relay.transpose(_bytes()), "does not widen"),
        (relay.cast(relay.cast(var("x", 4, 16, dtype="uint8"), "float32"), "int16"), "not widen"),
        (_bytes() - relay.const(-1, "int16") * _bytes(), "does not widen"),
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
    widened = Widening(None, -5, ()).of(loaded, kind)
    assert widened.dtype == kind
    assert Widening(None, 0, ()).of(loaded, kind).dtype == kind
