"""Keep a constant divisor of zero out of a kernel's text.

TVM writes scalar constants into expressions and ends the build where one divides by zero, although
x / 0 is a number among floats: an infinity, or NaN. A constant of one element and some axes is an
operand of the kernel, and is divided by while it runs.
"""

from __future__ import annotations

from tvm_fusionx.ecg.graph import Graph

DIVISIONS = frozenset({"divide", "floor_divide", "mod", "floor_mod"})


def shield_zero_divisors(graph: Graph) -> int:
    """Give scalar divisors of zero as many axes as what they divide; return how many there were.

    Parameters
    ----------
    graph
        Changed in place. Integers are left alone: their division by zero is none.
    """
    changed = 0
    for node in graph.topological():
        if node.op not in DIVISIONS:
            continue
        value, divisor = node.operands
        if not divisor.is_constant or not value.type.is_float or divisor.shape != ():
            continue
        if not value.shape or divisor.array.item() != 0:
            continue
        zero = graph.constant(divisor.array.reshape((1,) * len(value.shape)))
        graph.replace(node[0], graph.call(node.op, [value, zero], node.attrs, name=node.name))
        changed += 1
    if changed:
        graph.prune()
    return changed
