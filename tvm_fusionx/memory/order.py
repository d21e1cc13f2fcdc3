"""An order of the calls in which fewer bytes are needed at once.

What is needed after some calls have run does not depend on the order in which they did. So it is
enough to keep, for each set of calls that have run, the best way to it: a search that is exact as
long as the sets fit into the beam, and good where they do not.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_fusionx.memory.heirs import heirs_of, joined, taken_over
from tvm_fusionx.memory.lifetimes import aligned, live_bytes, tenants_of
from tvm_fusionx.memory.program import Program

# Sets of calls that are kept at each step. Networks whose branches are short need a few.
BEAM_WIDTH = 64


@dataclass(frozen=True)
class Order:
    """An order, and what is known of it.

    Attributes
    ----------
    calls
        Numbers of the calls.
    peak_bytes
        The most that is needed at one moment.
    is_best
        Whether no order needs fewer.
    """

    calls: tuple[int, ...]
    peak_bytes: int
    is_best: bool


@dataclass(frozen=True)
class _State:
    done: int
    live: int
    peak: int
    last: int
    before: _State | None


def peak_of(program: Program, order: tuple[int, ...]) -> int:
    """Return the most bytes that are needed at one moment when the calls run in `order`."""
    tenants = tenants_of(program, order)
    whole, _ = joined(tenants, heirs_of(program, order, tenants))
    return max(live_bytes(whole, len(order)), default=0)


def best_order(program: Program, width: int = BEAM_WIDTH) -> Order:
    """Return an order that needs the fewest bytes at once, as far as the search sees.

    The program's own order where no other is better.
    """
    own = tuple(range(len(program.calls)))
    own_peak = peak_of(program, own)
    if own_peak <= _least_for_one_call(program):
        return Order(own, own_peak, True)
    found, is_exact = _search(program, own_peak, width)
    if found is None:
        return Order(own, own_peak, is_exact)
    calls: list[int] = []
    state: _State | None = found
    while state is not None and state.last >= 0:
        calls.append(state.last)
        state = state.before
    return Order(tuple(reversed(calls)), found.peak, is_exact)


def _least_for_one_call(program: Program) -> int:
    """Return what the greediest call alone needs, in any order."""
    sizes = _sizes(program)
    return max(
        (
            sum(sizes[buffer] for buffer in {*call.reads, *call.writes})
            - sum(sizes[result] for _, result in taken_over(program, call, {*call.reads}))
            + aligned(call.workspace_bytes)
            for call in program.calls
        ),
        default=0,
    )


def _sizes(program: Program) -> list[int]:
    return [0 if buffer.is_outside else aligned(buffer.bytes) for buffer in program.buffers]


def _search(program: Program, below: int, width: int) -> tuple[_State | None, bool]:
    """Return the best way to run all calls with a peak under `below`, and whether all was seen."""
    sizes = _sizes(program)
    producers = [sum(1 << other for other in before) for before in program.producers()]
    readers = [0] * len(program.buffers)
    for number, call in enumerate(program.calls):
        for buffer in call.reads:
            readers[buffer] |= 1 << number
    states = {0: _State(0, 0, 0, -1, None)}
    is_exact = True
    for _ in program.calls:
        following: dict[int, _State] = {}
        for state in states.values():
            for number, call in enumerate(program.calls):
                bit = 1 << number
                if state.done & bit or producers[number] & ~state.done:
                    continue
                done = state.done | bit
                live = state.live + sum(sizes[buffer] for buffer in call.writes)
                shared = 0
                if call.in_place:
                    gone = {buffer for buffer in call.reads if not readers[buffer] & ~done}
                    pairs = taken_over(program, call, gone)
                    shared = sum(sizes[result] for _, result in pairs)
                peak = max(state.peak, live - shared + aligned(call.workspace_bytes))
                if peak >= below:
                    continue
                for buffer in {*call.reads, *call.writes}:
                    if not readers[buffer] & ~done:
                        live -= sizes[buffer]
                known = following.get(done)
                if known is None or peak < known.peak:
                    following[done] = _State(done, live, peak, number, state)
        if len(following) > width:
            is_exact = False
            kept = sorted(following.values(), key=lambda each: (each.peak, each.live))[:width]
            following = {state.done: state for state in kept}
        states = following
        if not states:
            return None, is_exact
    (last,) = states.values()
    return last, is_exact
