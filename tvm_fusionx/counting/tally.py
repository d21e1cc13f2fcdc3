"""Sums over what ran: instructions by kind, bytes, cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tvm_fusionx.counting.cycles import cycles_of
from tvm_fusionx.counting.executed import Function, Step, pieces_of
from tvm_fusionx.counting.instructions import (
    BRANCH,
    LOAD,
    MOVE,
    MULTIPLY_ADD,
    OTHER,
    STORE,
    VECTOR,
    classify,
)
from tvm_fusionx.counting.loops import is_on_stack

# Pieces of code that llvm-mca reads, the hottest first: they are so much of what ran; the rest is
# taken to run as they do.
SHARE = 0.99
MOST_PIECES = 1500


@dataclass
class Tally:
    """What a function, or all of them, executed.

    Attributes
    ----------
    instructions, multiply_adds, loads, stores, moves, vector, branches, other
        Instructions: all, and by kind.
    stack
        Of loads and stores, those on the stack.
    products
        Products that multiply-adds added: four of a vector of float32.
    loaded_bytes, stored_bytes
        Between registers and memory.
    l1_bytes, l2_bytes
        That crossed between first-level cache and second, and between the second and what is below,
        both ways; 0 where no caches were modelled.
    cycles
        By core: an estimate.
    """

    instructions: int = 0
    multiply_adds: int = 0
    loads: int = 0
    stores: int = 0
    stack: int = 0
    moves: int = 0
    vector: int = 0
    branches: int = 0
    other: int = 0
    products: int = 0
    loaded_bytes: int = 0
    stored_bytes: int = 0
    l1_bytes: int = 0
    l2_bytes: int = 0
    cycles: dict[str, float] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Add what another executed."""
        for name, value in asdict(other).items():
            if name != "cycles":
                setattr(self, name, getattr(self, name) + value)
        for core, cycles in other.cycles.items():
            self.cycles[core] = self.cycles.get(core, 0.0) + cycles

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers by name; cycles as whole ones."""
        return {**asdict(self), "cycles": {core: round(n) for core, n in self.cycles.items()}}


# The field of a kind of instruction.
_FIELDS = {
    MULTIPLY_ADD: "multiply_adds",
    LOAD: "loads",
    STORE: "stores",
    MOVE: "moves",
    VECTOR: "vector",
    BRANCH: "branches",
    OTHER: "other",
}


def tally_of(function: Function, texts: Mapping[int, str], scalable_bytes: int) -> Tally:
    """Return what a function executed; `texts` has the text of each word."""
    tally = Tally()
    frame = function.has_frame(texts)
    for step in function.steps:
        does = classify(texts[step.word], scalable_bytes)
        tally.instructions += step.count
        name = _FIELDS[does.kind]
        setattr(tally, name, getattr(tally, name) + step.count)
        tally.stack += step.count * is_on_stack(does.base, frame)
        tally.products += step.count * does.products
        tally.loaded_bytes += step.count * does.loaded
        tally.stored_bytes += step.count * does.stored
    tally.l1_bytes = function.moved[0] + function.moved[1]
    tally.l2_bytes = function.moved[2] + function.moved[3]
    return tally


def estimate_cycles(
    functions: Sequence[Function],
    tallies: Sequence[Tally],
    texts: Mapping[int, str],
    cores: Iterable[str],
) -> None:
    """Write the estimated cycles on each core into the tallies of the functions."""
    owned = _hottest(functions)
    seen = [0] * len(functions)
    for owner, piece in owned:
        seen[owner] += sum(step.count for step in piece)
    pieces = [[texts[step.word] for step in piece] for _, piece in owned]
    for core in cores:
        found = [0.0] * len(functions)
        for (owner, piece), cycles in zip(owned, cycles_of(pieces, core), strict=True):
            found[owner] += piece[0].count * cycles
        # A function of which no piece was read runs at the pace of all.
        pace = sum(found) / max(1, sum(seen))
        for number, tally in enumerate(tallies):
            whole = tally.instructions
            scale = whole / seen[number] if seen[number] else 0.0
            tally.cycles[core] = found[number] * scale if scale else pace * whole


def _hottest(functions: Sequence[Function]) -> list[tuple[int, list[Step]]]:
    """Return the pieces that make up nearly all of what ran, each with its function's number."""
    owned = [
        (number, piece)
        for number, function in enumerate(functions)
        for piece in pieces_of(function.steps)
    ]
    owned.sort(key=lambda each: -sum(step.count for step in each[1]))
    enough = SHARE * sum(function.instructions for function in functions)
    kept, seen = [], 0
    for number, piece in owned[:MOST_PIECES]:
        if seen >= enough:
            break
        kept.append((number, piece))
        seen += sum(step.count for step in piece)
    return kept
