"""The plan of a program's memory: the order of its calls, and an offset for each of its tensors."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_fusionx.memory.lifetimes import ALIGNMENT, Tenant, live_bytes, tenants_of
from tvm_fusionx.memory.offsets import arena_of, place, why_not_apart
from tvm_fusionx.memory.order import BEAM_WIDTH, best_order
from tvm_fusionx.memory.program import Program, why_not_in_order
from tvm_fusionx.memory.solver import TIME_LIMIT_SECONDS, can_solve, solve


@dataclass(frozen=True)
class MemoryPlan:
    """Where everything lies while a program runs.

    Attributes
    ----------
    program
        What was planned.
    order
        Numbers of its calls, as they run.
    tenants, offsets
        What lies in the arena, and where each begins, in bytes.
    bound_bytes
        No arena for this order is smaller.
    is_best_order
        Whether no order of the calls needs fewer bytes at one moment.
    is_solved
        Whether a solver improved the places.
    """

    program: Program
    order: tuple[int, ...]
    tenants: tuple[Tenant, ...]
    offsets: tuple[int, ...]
    bound_bytes: int
    is_best_order: bool
    is_solved: bool = False

    @property
    def arena_bytes(self) -> int:
        """Return the size of the arena."""
        return arena_of(self.tenants, self.offsets)

    @property
    def gap_bytes(self) -> int:
        """Return by how much a smaller arena could be possible; 0 where none is."""
        return self.arena_bytes - self.bound_bytes

    @property
    def live(self) -> list[int]:
        """Return the bytes that are needed at each call, in their order."""
        return live_bytes(self.tenants, len(self.order))

    @property
    def peak_call(self) -> str:
        """Return the name of the call that needs the most; empty where nothing is called."""
        live = self.live
        if not live:
            return ""
        return self.program.calls[self.order[max(range(len(live)), key=live.__getitem__)]].name

    def offset_of(self, buffer: int) -> int:
        """Return where a buffer begins in the arena; 0 for one without bytes.

        Raises
        ------
        KeyError
            It lies outside.
        """
        for tenant, offset in zip(self.tenants, self.offsets, strict=True):
            if tenant.buffer == buffer:
                return offset
        if self.program.buffers[buffer].is_outside:
            raise KeyError(buffer)
        return 0

    def workspace_offset(self, position: int) -> int:
        """Return where the workspace of the call at `position` begins; 0 where it has none."""
        for tenant, offset in zip(self.tenants, self.offsets, strict=True):
            if tenant.buffer is None and tenant.first == position:
                return offset
        return 0


def plan_memory(
    program: Program,
    *,
    reorder: bool = True,
    beam_width: int = BEAM_WIDTH,
    time_limit_seconds: float = TIME_LIMIT_SECONDS,
) -> MemoryPlan:
    """Plan a program's memory.

    Parameters
    ----------
    program
        Calls in an order that works.
    reorder
        Whether the calls may run in another order. It is taken where its arena is smaller.
    beam_width
        States that the search for an order keeps.
    time_limit_seconds
        Of the solver; 0 leaves it out.

    Returns
    -------
    plan
        Checked: see :func:`check_plan`.
    """
    own = tuple(range(len(program.calls)))
    plan = _placed(program, own, False, time_limit_seconds)
    if reorder:
        order = best_order(program, beam_width)
        if order.calls == own:
            plan = _placed(program, own, order.is_best, time_limit_seconds)
        else:
            other = _placed(program, order.calls, order.is_best, time_limit_seconds)
            plan = min(plan, other, key=lambda each: each.arena_bytes)
    check_plan(plan)
    return plan


def _placed(
    program: Program, order: tuple[int, ...], is_best: bool, time_limit_seconds: float
) -> MemoryPlan:
    tenants = tenants_of(program, order)
    bound = max(live_bytes(tenants, len(order)), default=0)
    offsets = place(tenants, bound)
    arena = arena_of(tenants, offsets)
    is_solved = False
    if arena > bound and time_limit_seconds > 0 and can_solve(tenants):
        answer = solve(tenants, offsets, bound, time_limit_seconds)
        if answer is not None:
            bound = max(bound, min(answer[1], arena))
            if arena_of(tenants, answer[0]) < arena and not why_not_apart(tenants, answer[0]):
                offsets, is_solved = answer[0], True
    return MemoryPlan(program, order, tenants, tuple(offsets), bound, is_best, is_solved)


def check_plan(plan: MemoryPlan) -> None:
    """Make sure that a plan is right, whatever made it.

    Raises
    ------
    ValueError
        A call would run before what it reads from, two tensors lie in one place at one moment, a
        tensor is not aligned, or its time is not that of the calls that use it.
    """
    problem = why_not_in_order(plan.program, plan.order)
    if problem is None and plan.tenants != tenants_of(plan.program, plan.order):
        problem = "tensors are not there when they are used"
    if problem is None and (shared := why_not_apart(plan.tenants, plan.offsets)):
        problem = f"{shared} lie in one place"
    if problem is None and any(offset < 0 or offset % ALIGNMENT for offset in plan.offsets):
        problem = f"an offset is no multiple of {ALIGNMENT}"
    if problem is not None:
        raise ValueError(f"memory plan: {problem}")
