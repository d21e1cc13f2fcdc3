"""Calls and the buffers they pass on: all that planning memory needs to know of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Buffer:
    """What one call writes and others read.

    Attributes
    ----------
    name
        For people.
    bytes
        Its size.
    is_outside
        Whether it lies in memory of the caller, as outputs of the model do: it orders calls, and
        takes nothing of the arena.
    """

    name: str
    bytes: int
    is_outside: bool = False


@dataclass(frozen=True)
class Call:
    """One kernel that runs.

    Attributes
    ----------
    name
        For people.
    reads, writes
        Numbers of buffers. What the caller or the weights file holds is none.
    workspace_bytes
        What it needs while it runs, and never after.
    in_place
        A buffer that it reads and one that it writes, where the second may lie exactly where the
        first does. Pairs hold together as long as no buffer is in two of them.
    """

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    workspace_bytes: int = 0
    in_place: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Program:
    """Calls in an order that works, and their buffers; each is written by one call."""

    buffers: tuple[Buffer, ...]
    calls: tuple[Call, ...]

    def writers(self) -> dict[int, int]:
        """Return for each buffer the number of the call that writes it.

        Raises
        ------
        ValueError
            Two calls write one buffer, and so no order of others is safe.
        """
        found: dict[int, int] = {}
        for number, call in enumerate(self.calls):
            for buffer in call.writes:
                if buffer in found:
                    raise ValueError(f"buffer {self.buffers[buffer].name}: two calls write it")
                found[buffer] = number
        return found

    def producers(self) -> tuple[frozenset[int], ...]:
        """Return for each call those that must have run before it."""
        writers = self.writers()
        return tuple(
            frozenset(writers[buffer] for buffer in call.reads) - {number}
            for number, call in enumerate(self.calls)
        )


def why_not_in_order(program: Program, order: Sequence[int]) -> str | None:
    """Return why `order` may not take the place of the program's own, or None.

    This proves an order by dependence: every call runs once, behind all that it reads from.
    """
    if sorted(order) != list(range(len(program.calls))):
        return "it does not have every call once"
    place = {call: position for position, call in enumerate(order)}
    for number, before in enumerate(program.producers()):
        late = [other for other in before if place[other] > place[number]]
        if late:
            names = (program.calls[number].name, program.calls[late[0]].name)
            return f"{names[0]} would run before {names[1]}, whose result it reads"
    return None
