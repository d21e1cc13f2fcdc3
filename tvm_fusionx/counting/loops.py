"""Loops in disassembled code: what lies between a branch back and where it leads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tvm_fusionx.counting.disassembly import WORD_BYTES, Line
from tvm_fusionx.counting.instructions import (
    FRAME_POINTER,
    LOAD,
    MOVE,
    MULTIPLY_ADD,
    STACK_POINTER,
    STORE,
    classify,
)

# Branches to a place that the word tells (Arm ARM, chapter C6): what the upper bits are, and where
# the distance in words lies.
_BRANCHES = (
    (0xFC000000, 0x14000000, 0, 26),  # b
    (0xFF000000, 0x54000000, 5, 19),  # b.cond, bc.cond
    (0x7E000000, 0x34000000, 5, 19),  # cbz, cbnz
    (0x7E000000, 0x36000000, 5, 14),  # tbz, tbnz
)
_FRAME = re.compile(r"(?:mov x29, sp$|add x29, sp, #)")


@dataclass(frozen=True)
class Loop:
    """A loop, with no other inside.

    Attributes
    ----------
    code
        Its instructions, the branch back last.
    frame
        Whether ``x29`` holds the stack's frame in its function.
    depth
        How many loops are around it.
    """

    code: tuple[Line, ...]
    frame: bool = False
    depth: int = 0

    @property
    def texts(self) -> list[str]:
        """Return the text of its instructions."""
        return [line.text for line in self.code]

    @property
    def multiply_adds(self) -> int:
        """Return how many of its instructions add products to sums."""
        return self._of_kind(MULTIPLY_ADD)

    @property
    def instructions_each(self) -> float:
        """Return its instructions for each multiply-add; infinite without any."""
        return len(self.code) / self.multiply_adds if self.multiply_adds else float("inf")

    @property
    def stack(self) -> int:
        """Return how many of its instructions read or write the stack."""
        return sum(is_on_stack(classify(text).base, self.frame) for text in self.texts)

    @property
    def loads(self) -> int:
        """Return how many of its instructions load, from the stack too."""
        return self._of_kind(LOAD)

    @property
    def stores(self) -> int:
        """Return how many of its instructions store."""
        return self._of_kind(STORE)

    @property
    def moves(self) -> int:
        """Return how many of its instructions move within vectors, and to and from them."""
        return self._of_kind(MOVE)

    def _of_kind(self, kind: str) -> int:
        return sum(classify(text).kind == kind for text in self.texts)


def is_on_stack(base: str, frame: bool) -> bool:
    """Tell whether memory that `base` addresses is the stack's."""
    return base == STACK_POINTER or (frame and base == FRAME_POINTER)


def has_frame(texts: Sequence[str]) -> bool:
    """Tell whether a function keeps its frame in ``x29``, which otherwise is any register."""
    return any(_FRAME.match(text) for text in texts)


def branch_target(word: int, address: int) -> int | None:
    """Return where the branch `word` at `address` leads; None of what is none, or calls."""
    for mask, value, low, bits in _BRANCHES:
        if word & mask == value:
            distance = word >> low & ((1 << bits) - 1)
            distance -= (distance >> (bits - 1)) << bits
            return address + WORD_BYTES * distance
    return None


def innermost_loops(code: Sequence[Line], frame: bool | None = None) -> list[Loop]:
    """Return the loops of a function that hold no other loop, in their order.

    Parameters
    ----------
    code
        Instructions by address; what never ran may be missing.
    frame
        As in :class:`Loop`; by default read from `code`.
    """
    if frame is None:
        frame = has_frame([line.text for line in code])
    places = {line.address: place for place, line in enumerate(code)}
    spans = set()
    for place, line in enumerate(code):
        target = branch_target(line.word, line.address)
        if target is not None and target <= line.address and target in places:
            spans.add((places[target], place))
    inner: list[tuple[int, int]] = []
    # The smallest first: whatever holds one of those is not innermost.
    for start, end in sorted(spans, key=lambda span: span[1] - span[0]):
        if not any(start <= other and last <= end for other, last in inner):
            inner.append((start, end))
    return [
        Loop(tuple(code[start : end + 1]), frame, _depth(start, end, spans))
        for start, end in sorted(inner)
    ]


def _depth(start: int, end: int, spans: Iterable[tuple[int, int]]) -> int:
    """Return how many loops hold a span; one may have several branches back to its start."""
    return len({first for first, last in spans if first <= start and end <= last}) - 1
