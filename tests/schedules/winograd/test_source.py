"""Where a convolution's input is, when chunks of one tensor are moved about before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tvm import arith, relay, tir

from tests.relay_modules import var
from tests.schedules.blocked_blocks import describe
from tests.schedules.winograd_convolution import filtered, frames_beside
from tvm_fusionx._tvm.cures import concatenation_as_expression
from tvm_fusionx.expressions.winograd import STAGE_PAD
from tvm_fusionx.schedules.winograd.source import Source, find_source

FRAMES, CHUNKS = 4, 2
x = var("x", FRAMES, CHUNKS, 5, 6, 8)


def _found(data: relay.Expr, chunks: int = CHUNKS, frames: int = FRAMES) -> Source | str:
    with concatenation_as_expression():
        made = filtered((frames, chunks * 8, 5, 6), 8, (1, 1, 1, 1), data=data)
        return find_source(describe(made), STAGE_PAD)


def _places(source: Source, frames: int, chunks: int) -> list[tuple[int, int] | None]:
    """Return image and chunk of the tensor for every image and chunk, or None for zeros."""
    places: list[tuple[int, int] | None] = []
    for image in range(frames):
        for chunk in range(chunks):
            at, inside = source.at(*(tir.const(each, "int32") for each in (image, chunk)))
            simplify = arith.Analyzer().simplify
            is_inside = inside is None or bool(simplify(inside))
            assert {index.dtype for index in at} == {"int32"}
            first, second = (int(simplify(index)) for index in at)
            places.append((first, second) if is_inside else None)
    return places


def test_a_tensor_is_read_as_it_is() -> None:
    found = _found(x)
    assert isinstance(found, Source)
    assert found.variables == ()
    assert _places(found, 2, 2) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_frames_are_found_where_they_are() -> None:
    found = _found(frames_beside(x, FRAMES), 3 * CHUNKS)
    assert isinstance(found, Source)
    expected = [
        (frame + step, chunk) if 0 <= frame + step < FRAMES else None
        for frame in range(FRAMES)
        for step in (-1, 0, 1)
        for chunk in range(CHUNKS)
    ]
    assert _places(found, FRAMES, 3 * CHUNKS) == expected


def test_what_is_never_outside_has_no_condition() -> None:
    every_second = relay.strided_slice(x, [1], [FRAMES], [2], axes=[0])
    found = _found(every_second, frames=2)
    assert isinstance(found, Source)
    assert found.inside is None
    assert _places(found, 2, 1) == [(1, 0), (3, 0)]


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "two tensors": (
        lambda: relay.concatenate([var(name, FRAMES, 1, 5, 6, 8) for name in "ab"], 1),
        "not one tensor",
    ),
    "a computed one": (lambda: relay.exp(x), "not one tensor"),
    "padded by ones": (
        lambda: relay.nn.pad(
            var("y", FRAMES - 1, CHUNKS, 5, 6, 8), ((1, 0), *[(0, 0)] * 4), relay.const(1.0)
        ),
        "not one tensor",
    ),
    "rows turned around": (lambda: relay.reverse(x, 2), "within images"),
    "rows padded": (
        lambda: relay.nn.pad(
            var("y", FRAMES, CHUNKS, 4, 6, 8), ((0, 0), (0, 0), (1, 0), (0, 0), (0, 0))
        ),
        "within images",
    ),
    "rows from different frames": (
        lambda: relay.where(var("c", 1, 1, 5, 1, 1, dtype="bool"), x, relay.reverse(x, 0)),
        "by whole images",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_other_inputs_are_refused(kind: str) -> None:
    make, reason = REFUSED[kind]
    found = _found(make())
    assert isinstance(found, str)
    assert reason in found


def test_what_others_read_as_well_is_refused() -> None:
    moved = relay.reverse(x, 0)
    made = filtered((FRAMES, CHUNKS * 8, 5, 6), CHUNKS * 8, (1, 1, 1, 1), data=moved)
    found = find_source(describe(made + moved), STAGE_PAD)
    assert found == "what it reads is computed for others as well"
