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


# Three tensors of four units, each made over the one before, and one of one unit.
IN_PLACE = Program(
    (Buffer("a", 256), Buffer("b", 256), Buffer("c", 250), Buffer("d", 64)),
    (
        Call("k0", (), (0,)),
        Call("k1", (0,), (1,), in_place=((0, 1),)),
        Call("k2", (1,), (2,), in_place=((1, 2),)),
        Call("k3", (2,), (3,), in_place=((2, 3),)),
    ),
)


def best_by_hand(some: Program) -> int:
    """Return the least peak of all orders that are right: every one is tried."""
    orders = itertools.permutations(range(len(some.calls)))
    return min(peak_of(some, order) for order in orders if not why_not_in_order(some, order))


@st.composite
def programs(draw: st.DrawFn, most: int = 12) -> Program:
    """Draw a program: sizes, edges, workspaces, results in place, and outputs that lie outside."""
    count = draw(st.integers(1, most))
    buffers, calls = [], []
    for number in range(count):
        size = draw(st.one_of(st.just(300), st.integers(0, 700)))
        buffers.append(Buffer(f"t{number}", size, draw(st.booleans())))
        reads = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        over = draw(st.sets(st.sampled_from(sorted(reads)))) if reads else set()
        pairs = tuple((operand, number) for operand in sorted(over))
        need = draw(st.integers(0, 300))
        calls.append(Call(f"k{number}", tuple(reads), (number,), need, pairs))
    return Program(tuple(buffers), tuple(calls))
