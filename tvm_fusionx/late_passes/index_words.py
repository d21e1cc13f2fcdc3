"""Take the shared bytes of dot products from lanes of a vector, where an instruction can.

A register tile of a window multiplies vectors of weights by the few bytes of a pixel that one sum
takes, a word, repeated in all lanes. Where the words of neighbouring pixels lie side by side and a
dot product takes a word from a lane of a register (NEON's ``sdot v0.4s, v1.16b, v2.4b[1]``), one
load gives those of several pixels::

    s[0] = sdot(s[0], w, repeated(x[0 : 4]))            r = x[0 : 16]
    s[1] = sdot(s[1], w, repeated(x[4 : 8]))     ->     s[0] = sdot(s[0], w, repeated(r[0 : 4]))
    ...                                                 s[1] = sdot(s[1], w, repeated(r[4 : 8]))

So are words of every second pixel. Those that are left over come from a vector that overlaps the
last one.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.late_passes.straight_lines import change_lines, vector_place
from tvm_fusionx.processors.integers import WORD_BYTES
from tvm_fusionx.tir.flat_place import FlatPlace

_REINTERPRET = "tir.reinterpret"

Lane = tuple[Any, int]
"""Index of a vector's first byte, and the word in it."""


@dataclass(frozen=True)
class _Words:
    """What is repeated: so many bytes, in so many lanes; a vector holds `WORD_BYTES` a lane."""

    lanes: int
    size: int

    @property
    def dtype(self) -> str:
        """An integer of as many bytes."""
        return f"int{8 * self.size}"

    @property
    def vector(self) -> int:
        """Bytes of a vector."""
        return self.lanes * WORD_BYTES


def index_words(lanes: int, size: int = WORD_BYTES) -> Any:
    """Return the TIR pass that loads shared words by whole vectors, behind ``emit_dots``.

    Parameters
    ----------
    lanes
        In which a word is repeated; as many words of four bytes are a vector.
    size
        Bytes of a word.
    """
    words = _Words(lanes, size)

    def change(line: Sequence[Any]) -> Any | None:
        places = _places_of(line, words)
        found = _lanes_of(places, words)
        if not found:
            return None

        def replaced(node: Any) -> Any:
            word = _word_of(node, words)
            lane = None if word is None else found.get(word[1])
            return None if word is None or lane is None else _from_lane(word[0], *lane, words)

        sequence = line[0] if len(line) == 1 else tir.SeqStmt(line)
        return tir.stmt_functor.ir_transform(sequence, None, replaced, ["tir.Call"])

    return change_lines("tvm_fusionx.IndexWords", change)


def _word_of(node: Any, words: _Words) -> tuple[Any, FlatPlace] | None:
    """Return the load of a word that `node` repeats in all lanes, and its place."""
    if not _is_reinterpreted(node, words.lanes * words.size):
        return None
    (repeated,) = node.args
    if not isinstance(repeated, tir.Broadcast) or int(repeated.lanes) != words.lanes:
        return None
    word = repeated.value
    if not isinstance(word, tir.Call) or word.op.name != _REINTERPRET or word.dtype != words.dtype:
        return None
    (load,) = word.args
    place = vector_place(load, words.size) if isinstance(load, tir.BufferLoad) else None
    return None if place is None else (load, place)


def _is_reinterpreted(node: Any, lanes: int) -> bool:
    is_call = isinstance(node, tir.Call) and getattr(node.op, "name", "") == _REINTERPRET
    return (
        is_call and tvm.DataType(node.dtype).bits == 8 and tvm.DataType(node.dtype).lanes == lanes
    )


def _places_of(line: Sequence[Any], words: _Words) -> list[FlatPlace]:
    """Return the places of the words that a line repeats, of buffers that it does not write."""
    written = [stmt.buffer.data for stmt in line]
    places: dict[FlatPlace, None] = {}

    def visit(node: Any) -> None:
        word = _word_of(node, words)
        if word is not None and not any(word[1].data.same_as(data) for data in written):
            places[word[1]] = None

    for stmt in line:
        tir.stmt_functor.post_order_visit(stmt, visit)
    return list(places)


def _lanes_of(places: Iterable[FlatPlace], words: _Words) -> dict[FlatPlace, Lane]:
    """Return the vector and the lane that each place can be taken from."""
    lines: dict[FlatPlace, dict[int, FlatPlace]] = collections.defaultdict(dict)
    for place in places:
        offset = place.offset()
        if offset is not None:
            lines[place.before(offset)][offset] = place
    found: dict[FlatPlace, Lane] = {}
    for line in lines.values():
        for run in _runs(line, words):
            for start, offsets in _vectors(run, words):
                for offset in offsets:
                    # As far before the word as the vector begins.
                    begin = line[offset].index - (offset - start)
                    found[line[offset]] = begin, (offset - start) // words.size
    return found


def _runs(offsets: Iterable[int], words: _Words) -> Iterator[list[int]]:
    """Yield offsets that follow one another, word by word or those of every second pixel."""
    run: list[int] = []
    for offset in sorted(offsets):
        if run and offset - run[-1] not in range(words.size, 2 * WORD_BYTES + 1, words.size):
            yield run
            run = []
        run.append(offset)
    if run:
        yield run


def _vectors(run: list[int], words: _Words) -> Iterator[tuple[int, list[int]]]:
    """Yield where vectors begin and the words that they hold; none where a run is shorter.

    None reads what lies outside of the run.
    """
    last = run[-1] + words.size - words.vector
    left = run if last >= run[0] else []
    while left:
        start = min(left[0], last)
        yield start, [offset for offset in left if offset < start + words.vector]
        left = [offset for offset in left if offset >= start + words.vector]


def _from_lane(load: Any, start: Any, lane: int, words: _Words) -> Any:
    """Return the word of a lane, repeated, of the vector that begins at `start`."""
    vector = tir.BufferLoad(load.buffer, [tir.Ramp(start, 1, words.vector)])
    held = f"{words.dtype}x{words.vector // words.size}"
    whole = tir.call_intrin(held, _REINTERPRET, vector)
    repeated = tir.Broadcast(tir.Shuffle([whole], [lane]), words.lanes)
    return tir.call_intrin(
        f"{load.buffer.dtype}x{words.lanes * words.size}", _REINTERPRET, repeated
    )
