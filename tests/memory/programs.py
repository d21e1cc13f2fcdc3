"""Small programs to plan: by hand, and random ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import strategies as st

from tvm_fusionx.memory.lifetimes import ALIGNMENT
from tvm_fusionx.memory.order import peak_of
from tvm_fusionx.memory.program import Buffer, Call, Program, why_not_in_order


def program(*calls: tuple[Sequence[int], int], workspace: dict[int, int] | None = None) -> Program:
    """Return calls that each write one buffer: which calls each reads from, and its units."""
    buffers = tuple(Buffer(f"t{n}", units * ALIGNMENT) for n, (_, units) in enumerate(calls))
    needs = workspace or {}
    return Program(
        buffers,
        tuple(
            Call(f"k{n}", tuple(reads), (n,), needs.get(n, 0) * ALIGNMENT)
            for n, (reads, _) in enumerate(calls)
        ),
    )


# Two branches, each large and then small: finishing one before the other begins is better.
BRANCHES = program(([], 1), ([0], 8), ([0], 8), ([1], 1), ([2], 1), ([3, 4], 1))


# a (4 units), then b (2), then the output (5), which lies outside and lends a its memory.
LENT = Program(
    (Buffer("a", 256), Buffer("b", 128), Buffer("out", 320, True)),
    (Call("k0", (), (0,)), Call("k1", (0,), (1,)), Call("k2", (1,), (2,))),
)


def best_by_hand(some: Program) -> int:
    """Return the least peak of all orders that are right: every one is tried."""
    orders = itertools.permutations(range(len(some.calls)))
    return min(peak_of(some, order) for order in orders if not why_not_in_order(some, order))


@st.composite
def programs(draw: st.DrawFn, most: int = 12) -> Program:
    """Draw a program: sizes, edges, workspaces, and outputs that lie outside."""
    count = draw(st.integers(1, most))
    buffers, calls = [], []
    for number in range(count):
        buffers.append(Buffer(f"t{number}", draw(st.integers(0, 700)), draw(st.booleans())))
        reads = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        calls.append(Call(f"k{number}", tuple(reads), (number,), draw(st.integers(0, 300))))
    return Program(tuple(buffers), tuple(calls))
