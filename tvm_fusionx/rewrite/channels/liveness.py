"""Which channels a graph can do without, and without which of them it should.

A channel can go where the model's results stay the same: everything tied to it goes as well, and
whoever adds it up either reads zeros or weighs it with zeros. It should go where that leaves fewer
chunks of channels to compute: half a chunk costs as much as a whole one.
"""

from __future__ import annotations

import numpy as np

from tvm_fusionx.ecg.graph import Value
from tvm_fusionx.rewrite.channels.flow import Flow, Marks
from tvm_fusionx.rewrite.channels.following import Flows


def zero_channels(flows: Flows) -> dict[Value, np.ndarray]:
    """Return, for each value that channels are followed in, which are zero for every input."""
    zero: dict[Value, np.ndarray] = {}
    for flow in flows.of.values():
        zero.update(flow.zeros_of(zero))
    return zero


def can_go(flows: Flows, zero: Marks) -> dict[Value, np.ndarray]:
    """Return which channels can go, all of them at once, with every result as it was."""
    found = {value: np.full(each.shape, True) for value, each in zero.items()}
    for flow in flows.of.values():
        for value in flow.axes:
            if value in flows.ends:
                found[value][:] = False
            elif flow.product is None:
                found[value] &= _made_by_ties(flow, value)
    settle(flows, zero, found)
    return found


def _made_by_ties(flow: Flow, value: Value) -> np.ndarray:
    """Return which channels of a result come from channels that are followed."""
    made = np.zeros(value.shape[flow.axes[value]], bool)
    for tie in flow.ties:
        if tie.second is value:
            made[tie.there] = True
    return made


def settle(flows: Flows, zero: Marks, may_go: dict[Value, np.ndarray]) -> None:
    """Keep every channel that one that stays needs, in place, until nothing more is kept."""
    order = list(flows.of.values())
    before = -1
    while before != (left := sum(int(marks.sum()) for marks in may_go.values())):
        before = left
        for flow in [*reversed(order), *order]:
            _keep_what_is_needed(flow, zero, may_go)


def _keep_what_is_needed(flow: Flow, zero: Marks, may_go: dict[Value, np.ndarray]) -> None:
    for tie in flow.ties:
        first, second = may_go[tie.first], may_go[tie.second]
        second[tie.there] &= first[tie.here]
        # A place of the first may be tied to several.
        np.logical_and.at(first, tie.here, second[tie.there])
    if flow.product is not None and flow.product.data is not None:
        data = flow.product.data
        may_go[data] &= flow.product.unread(zero, may_go)


def should_go(flows: Flows, zero: Marks, possible: Marks, chunk: int) -> dict[Value, np.ndarray]:
    """Return which of the channels that can go should.

    Parameters
    ----------
    possible
        From :func:`can_go`.
    chunk
        Channels that are computed at once: a result whose channels are chunks, or halves, quarters
        and so on of one, is left with such.
    """
    chosen = {value: marks.copy() for value, marks in possible.items()}
    is_settled = False
    while not is_settled:
        is_settled = True
        for flow in flows.of.values():
            for value in flow.axes:
                marks = chosen[value]
                size = _share_of_chunk(len(marks), chunk) if flow.product is not None else 1
                missing = _missing(len(marks), int(marks.sum()), size)
                if missing:
                    marks[np.flatnonzero(marks)[:missing]] = False
                    is_settled = False
        settle(flows, zero, chosen)
    return chosen


def _share_of_chunk(channels: int, chunk: int) -> int:
    """Return the largest half, quarter and so on of a chunk that divides the channels."""
    while channels % chunk:
        chunk //= 2
    return chunk


def _missing(channels: int, going: int, size: int) -> int:
    """Return how many of those that go have to stay for whole pieces of `size`, one at least."""
    left = channels - going
    return min(going, max(1, -(-left // size)) * size - left)
