"""Results in place of operands: tensors that lie one after the other in the same memory.

Where a kernel may write a result over an operand (:attr:`Call.in_place`), the operand is needed no
more, and both are equally large, the two are one tenant that stays longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_fusionx.memory.lifetimes import Tenant, aligned
from tvm_fusionx.memory.program import Call, Program

Heirs = dict[int, int]
"""For tenants, by their numbers, which one takes their place."""


def heirs_of(program: Program, order: Sequence[int], tenants: Sequence[Tenant]) -> Heirs:
    """Return all that can lie in place of others when the calls run in `order`.

    Parameters
    ----------
    tenants
        What :func:`tvm_fusionx.memory.lifetimes.tenants_of` returned for the same order.
    """
    of_buffer = {each.buffer: n for n, each in enumerate(tenants) if each.buffer is not None}
    found: Heirs = {}
    for position, number in enumerate(order):
        call = program.calls[number]
        gone = {
            buffer
            for buffer in call.reads
            if buffer in of_buffer and tenants[of_buffer[buffer]].last == position
        }
        for operand, result in taken_over(program, call, gone):
            found[of_buffer[operand]] = of_buffer[result]
    return found


def taken_over(program: Program, call: Call, gone: set[int]) -> list[tuple[int, int]]:
    """Return which results of a call lie in place of which operands, one of each.

    Parameters
    ----------
    gone
        Operands in the arena that nobody needs after the call.
    """
    found: list[tuple[int, int]] = []
    for operand, result in call.in_place:
        one, two = program.buffers[operand], program.buffers[result]
        is_taken = any(operand == other or result == given for other, given in found)
        is_inside = not (one.is_outside or two.is_outside)
        if operand in gone and is_inside and not is_taken and may_follow(one.bytes, two.bytes):
            found.append((operand, result))
    return found


def may_follow(operand_bytes: int, result_bytes: int) -> bool:
    """Tell whether a result takes as much of the arena as the operand, and anything at all."""
    return 0 < aligned(operand_bytes) == aligned(result_bytes)


def joined(tenants: Sequence[Tenant], heirs: Heirs) -> tuple[tuple[Tenant, ...], list[list[int]]]:
    """Return tenants of which each is a chain of heirs, and the numbers of what is in each."""
    inherited = set(heirs.values())
    whole, members = [], []
    for number, tenant in enumerate(tenants):
        if number in inherited:
            continue
        chain = [number]
        while chain[-1] in heirs:
            chain.append(heirs[chain[-1]])
        last = tenants[chain[-1]]
        whole.append(Tenant(tenant.name, tenant.bytes, tenant.first, last.last, last.buffer))
        members.append(chain)
    return tuple(whole), members


def is_heir(program: Program, order: Sequence[int], one: Tenant, two: Tenant) -> bool:
    """Tell whether `two` may lie exactly where `one` does, though the same call needs both.

    It is what a plan is checked by, and asks nothing that made the plan.
    """
    if one.buffer is None or two.buffer is None or one.last != two.first:
        return False
    call = program.calls[order[two.first]]
    is_proved = (one.buffer, two.buffer) in call.in_place
    return is_proved and one.buffer in call.reads and two.bytes <= one.bytes
