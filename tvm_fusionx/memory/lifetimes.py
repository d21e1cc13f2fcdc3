"""From when to when each buffer is needed, for one order of the calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_fusionx.memory.program import Program

# TVM's kAllocAlignment: kernels are compiled for tensors that begin at multiples of it.
ALIGNMENT = 64


@dataclass(frozen=True)
class Tenant:
    """What takes a place in the arena for a while.

    Attributes
    ----------
    name
        Of the buffer, or of the call whose workspace it is.
    bytes
        Rounded up to :data:`ALIGNMENT`.
    first, last
        Positions of the first and the last call that need it.
    buffer
        Number of the buffer; None for a workspace.
    """

    name: str
    bytes: int
    first: int
    last: int
    buffer: int | None

    def meets(self, other: Tenant) -> bool:
        """Tell whether both are needed at one moment."""
        return self.first <= other.last and other.first <= self.last


def aligned(size: int) -> int:
    """Return `size` rounded up to :data:`ALIGNMENT`."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def tenants_of(program: Program, order: Sequence[int]) -> tuple[Tenant, ...]:
    """Return all that takes a place in the arena when the calls run in `order`."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    found = []
    for position, number in enumerate(order):
        call = program.calls[number]
        for buffer in call.writes:
            first[buffer] = last[buffer] = position
        for buffer in call.reads:
            last[buffer] = position
        if call.workspace_bytes:
            size = aligned(call.workspace_bytes)
            found.append(Tenant(f"workspace of {call.name}", size, position, position, None))
    for buffer in first:
        what = program.buffers[buffer]
        if not what.is_outside and what.bytes:
            size = aligned(what.bytes)
            found.append(Tenant(what.name, size, first[buffer], last[buffer], buffer))
    return tuple(found)


def live_bytes(tenants: Sequence[Tenant], count: int) -> list[int]:
    """Return the bytes that are needed at each of `count` positions."""
    change = [0] * (count + 1)
    for tenant in tenants:
        change[tenant.first] += tenant.bytes
        change[tenant.last + 1] -= tenant.bytes
    live, now = [], 0
    for step in change[:count]:
        now += step
        live.append(now)
    return live
