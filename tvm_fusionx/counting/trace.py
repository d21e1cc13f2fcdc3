"""What the plug-in wrote: the blocks that ran, and the files that were mapped."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tvm_fusionx.errors import DeviceError

WORD_DIGITS = 8
MOVED = ("l1_in", "l1_out", "l2_in", "l2_out")


@dataclass(frozen=True)
class Block:
    """Straight code that ran.

    Attributes
    ----------
    address
        Of its first instruction.
    count
        How often it ran.
    words
        Its instructions.
    moved
        Bytes into and out of the first-level cache, and the second-level one, in all its runs.
    """

    address: int
    count: int
    words: tuple[int, ...]
    moved: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True)
class Mapping:
    """A part of a file in memory: from `start` to `end`, from `offset` of the file at `path` on."""

    start: int
    end: int
    offset: int
    path: str


@dataclass(frozen=True)
class Trace:
    """All that ran between the marks.

    Attributes
    ----------
    mappings
        By their start.
    """

    blocks: tuple[Block, ...]
    mappings: tuple[Mapping, ...]
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", tuple(each.start for each in self.mappings))

    def mapping_of(self, address: int) -> Mapping | None:
        """Return what is mapped at `address`; None where that is no file."""
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0 or address >= self.mappings[place].end:
            return None
        return self.mappings[place]


def read_trace(path: Path) -> Trace:
    """Read the plug-in's file.

    Raises
    ------
    DeviceError
        There is none, or it is no whole one: the program never passed the last mark.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        return _parse(lines)
    except (OSError, ValueError, IndexError) as error:
        raise DeviceError(
            f"counts {path.name}",
            expected="what the plug-in writes when an inference ends",
            found=str(error) or type(error).__name__,
            next_step="Run the program by hand under qemu-aarch64 to see where it ends.",
        ) from error


def _parse(lines: Sequence[str]) -> Trace:
    blocks, mappings = [], []
    if not lines or lines[-1] != "E":
        raise ValueError("a file that ends in the middle")
    for line in lines[:-1]:
        kind, *words = line.split(" ", 4) if line.startswith("M") else line.split(" ")
        if kind == "B":
            code = words[2]
            each = range(0, len(code), WORD_DIGITS)
            l1_in, l1_out, l2_in, l2_out = map(int, words[3:])
            blocks.append(
                Block(
                    int(words[0], 16),
                    int(words[1]),
                    tuple(int(code[at : at + WORD_DIGITS], 16) for at in each),
                    (l1_in, l1_out, l2_in, l2_out),
                )
            )
        elif kind == "M":
            start, end, offset = (int(word, 16) for word in words[:3])
            mappings.append(Mapping(start, end, offset, words[3]))
        else:
            raise ValueError(f"a line {line[:20]!r}")
    return Trace(tuple(blocks), tuple(sorted(mappings, key=lambda each: each.start)))
