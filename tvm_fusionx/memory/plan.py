"""The plan of a program's memory: the order of its calls, and an offset for each of its tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tvm_fusionx.memory.heirs import Heirs, heirs_of, is_heir, joined
from tvm_fusionx.memory.lending import Lender, least_arena, lend, lenders_of
from tvm_fusionx.memory.lending_solver import Loans, solve_lending
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
        All that needs a place, and where each begins, in bytes.
    homes
        For each of them None, where it lies in the arena, or the number of the buffer outside that
        lends it memory until it is written.
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
    homes: tuple[int | None, ...]
    bound_bytes: int
    is_best_order: bool
    is_solved: bool = False

    @property
    def arena_bytes(self) -> int:
        """Return the size of the arena."""
        return arena_of(*self._in(None))

    @property
    def gap_bytes(self) -> int:
        """Return by how much a smaller arena could be possible; 0 where none is."""
        return self.arena_bytes - self.bound_bytes

    @property
    def live(self) -> list[int]:
        """Return the bytes of the arena that are needed at each call, in their order."""
        tenants, offsets = self._in(None)
        live = live_bytes(tenants, len(self.order))
        for one, offset in zip(tenants, offsets, strict=True):
            for two, there in zip(tenants, offsets, strict=True):
                if offset == there and one is not two and one.last == two.first:
                    live[two.first] -= two.bytes
        return live

    @property
    def peak_call(self) -> str:
        """Return the name of the call that needs the most; empty where nothing is called."""
        live = self.live
        if not live:
            return ""
        return self.program.calls[self.order[max(range(len(live)), key=live.__getitem__)]].name

    def place_of(self, buffer: int) -> tuple[int | None, int]:
        """Return where a buffer lies: None for the arena or what lends it memory, and its offset.

        One without bytes is at the beginning of the arena.

        Raises
        ------
        KeyError
            It lies outside itself.
        """
        for tenant, home, offset in zip(self.tenants, self.homes, self.offsets, strict=True):
            if tenant.buffer == buffer:
                return home, offset
        if self.program.buffers[buffer].is_outside:
            raise KeyError(buffer)
        return None, 0

    def _in(self, home: int | None) -> tuple[list[Tenant], list[int]]:
        """Return what lies in the arena, or at a lender, and its offsets."""
        numbers = [number for number, each in enumerate(self.homes) if each == home]
        return [self.tenants[n] for n in numbers], [self.offsets[n] for n in numbers]

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
    alignment: int = ALIGNMENT,
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
    alignment
        Every offset and size is a multiple of so many bytes, a multiple of :data:`ALIGNMENT`.

    Returns
    -------
    plan
        Checked: see :func:`check_plan`.
    """
    if alignment != ALIGNMENT:
        coarse = partial(
            plan_memory,
            reorder=reorder,
            beam_width=beam_width,
            time_limit_seconds=time_limit_seconds,
        )
        return _planned_in_units(program, alignment, coarse)
    own = tuple(range(len(program.calls)))
    order = best_order(program, beam_width) if reorder else None
    is_best = order is not None and order.is_best
    orders = dict.fromkeys([own, *([order.calls] if order is not None else [])])
    plans = [
        _placed(layout, is_best, loans, time_limit_seconds)
        for calls in orders
        for layout in _layouts(program, calls)
        for loans in _loans(layout, time_limit_seconds)
    ]
    plan = min(plans, key=lambda each: each.arena_bytes)
    check_plan(plan)
    return plan


def _planned_in_units(
    program: Program, alignment: int, plan: Callable[[Program], MemoryPlan]
) -> MemoryPlan:
    """Plan in units so large that :data:`ALIGNMENT` of them are `alignment` bytes."""
    unit = alignment // ALIGNMENT
    whole = _with_sizes(program, lambda size: -(-size // alignment) * alignment)
    found = plan(_with_sizes(whole, lambda size: size // unit))
    fine = replace(
        found,
        program=whole,
        tenants=tenants_of(whole, found.order),
        offsets=tuple(offset * unit for offset in found.offsets),
        bound_bytes=found.bound_bytes * unit,
    )
    check_plan(fine)
    return fine


def _with_sizes(program: Program, changed: Callable[[int], int]) -> Program:
    buffers = [replace(each, bytes=changed(each.bytes)) for each in program.buffers]
    calls = [replace(each, workspace_bytes=changed(each.workspace_bytes)) for each in program.calls]
    return replace(program, buffers=tuple(buffers), calls=tuple(calls))


@dataclass(frozen=True)
class _Layout:
    """What is to be placed when the calls run in an order, some of it in place of other."""

    program: Program
    order: tuple[int, ...]
    tenants: tuple[Tenant, ...]
    whole: tuple[Tenant, ...]
    """Chains of tenants that lie in one place, each as one."""
    members: list[list[int]]
    """For each of them the numbers of its tenants."""
    lenders: tuple[Lender, ...]
    bound: int


def _layouts(program: Program, order: tuple[int, ...]) -> list[_Layout]:
    """Return what is to be placed, with all results in place that can be.

    Where outputs lend memory, without them, too: what stays longer may be too late to be lent any.
    """
    tenants, lenders = tenants_of(program, order), lenders_of(program, order)
    heirs = heirs_of(program, order, tenants)
    bound = least_arena(joined(tenants, heirs)[0], lenders, len(order))
    choices: list[Heirs] = [heirs, *([{}] if heirs and lenders else [])]
    return [
        _Layout(program, order, tenants, *joined(tenants, each), lenders, bound) for each in choices
    ]


def _loans(layout: _Layout, time_limit_seconds: float) -> list[Loans]:
    """Return ways to lend memory of outputs, none of it among them."""
    tenants, count, lenders = layout.whole, len(layout.order), layout.lenders
    found: list[Loans] = [{}]
    if lenders:
        found.append(lend(tenants, lenders, count))
        if time_limit_seconds > 0:
            found.append(solve_lending(tenants, lenders, count, time_limit_seconds))
    return found


def _placed(layout: _Layout, is_best: bool, lent: Loans, time_limit_seconds: float) -> MemoryPlan:
    everything, count, bound = layout.whole, len(layout.order), layout.bound
    own = [number for number in range(len(everything)) if number not in lent]
    tenants = [everything[number] for number in own]
    needed = max(live_bytes(tenants, count), default=0)
    offsets = place(tenants, needed)
    arena = arena_of(tenants, offsets)
    is_solved = False
    if arena > needed and time_limit_seconds > 0 and can_solve(tenants):
        answer = solve(tenants, offsets, needed, time_limit_seconds)
        if answer is not None:
            if not layout.lenders:
                bound = max(bound, min(answer[1], arena))
            if arena_of(tenants, answer[0]) < arena and not why_not_apart(tenants, answer[0]):
                offsets, is_solved = answer[0], True
    homes: list[int | None] = [None] * len(layout.tenants)
    places = [0] * len(layout.tenants)
    for number, offset in zip(own, offsets, strict=True):
        for member in layout.members[number]:
            places[member] = offset
    for number, (lender, offset) in lent.items():
        for member in layout.members[number]:
            homes[member], places[member] = lender, offset
    return MemoryPlan(
        layout.program,
        layout.order,
        layout.tenants,
        tuple(places),
        tuple(homes),
        max(0, bound),
        is_best,
        is_solved,
    )


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
    lenders = {each.buffer: each for each in lenders_of(plan.program, plan.order)}
    for home in {None, *plan.homes}:
        may_share = partial(is_heir, plan.program, plan.order)
        if problem is None and (shared := why_not_apart(*plan._in(home), may_share)):
            problem = f"{shared} lie in one place"
    for tenant, home, offset in zip(plan.tenants, plan.homes, plan.offsets, strict=True):
        if home is None or problem is not None:
            continue
        lender = lenders.get(home)
        if lender is None or not lender.can_hold(tenant) or offset + tenant.bytes > lender.bytes:
            problem = f"{tenant.name} does not fit where it is lent memory"
    if problem is None and any(offset < 0 or offset % ALIGNMENT for offset in plan.offsets):
        problem = f"an offset is no multiple of {ALIGNMENT}"
    if problem is not None:
        raise ValueError(f"memory plan: {problem}")
