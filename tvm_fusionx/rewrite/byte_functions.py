"""Quantized numbers that depend on one byte alone, as look-ups in a table.

Between two quantizations of a model lie an activation and what dequantizes and quantizes for it::

    q = round(sigmoid((x - z) * s) / t) + y

Of a byte ``x`` that has 256 results. They are computed once, as the operators define them, and are
then a table: exact, and as cheap for a gate with three quantizations as for one function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.numpy_operators import ELEMENTWISE, NUMPY_OPERATORS, NotInNumpyError
from tvm_fusionx.operators import TRANSCENDENTALS
from tvm_fusionx.rewrite.quantized import BYTES, DEQUANTIZE, ROUND_EVEN

Arrays = Sequence[np.ndarray]

LOOK_UP = "fusionx.look_up"
ENTRIES = 256

# Instructions of a vector that a function of an element takes where it has no instruction of its
# own (a sigmoid: bounds, a power of two, a polynomial of five terms, a division), and of a look-up:
# four registers that the table is loaded to, two shuffles, a choice.
TRANSCENDENTAL_WORK = 16
LOOK_UP_WORK = 8


@dataclass(frozen=True)
class _Function:
    """What a value is, as a function of one value of bytes."""

    source: Value

    table: np.ndarray
    """The result for the byte of each of 256 bits."""

    work: int
    """Instructions of a vector that it takes, element by element."""


_Known = _Function | np.ndarray


def look_up_bytes(graph: Graph) -> int:
    """Replace quantizations of what one byte decides by look-ups, in place; return how many.

    Parameters
    ----------
    graph
        Roundings are one operator each, and ``fusionx.look_up`` is known to Relay.
    """
    known: dict[Value, _Known] = {}
    found: list[tuple[Value, _Function]] = []
    for node in graph.calls():
        result = _result(node, known)
        if result is None:
            continue
        known[node[0]] = result
        if isinstance(result, _Function) and node[0].dtype in BYTES and result.work > LOOK_UP_WORK:
            found.append((node[0], result))
    for value, function in found:
        table = graph.constant(function.table)
        graph.replace(value, graph.call(LOOK_UP, [function.source, table], name=value.node.name))
    if found:
        graph.prune()
    return len(found)


def _result(node: Node, known: dict[Value, _Known]) -> _Known | None:
    """Return the only result of a call: a function of a byte, or one number; None where neither."""
    if node.op not in _OPERATORS or len(node.outputs) != 1:
        return None
    parts = []
    for value in node.operands:
        part = _part(value, node, known)
        if part is None:
            return None
        parts.append(part)
    functions = [part for part in parts if isinstance(part, _Function)]
    arrays = [part.table if isinstance(part, _Function) else part for part in parts]
    if not functions:
        return _evaluated(node, arrays, ()) if node.outputs[0].elements == 1 else None
    source = functions[0].source
    if any(part.source is not source for part in functions):
        return None
    if source.shape != node.outputs[0].shape:
        return None
    table = _evaluated(node, arrays, (ENTRIES,))
    if table is None:
        return None
    own = TRANSCENDENTAL_WORK if node.op in TRANSCENDENTALS else 1
    distinct = {id(part): part.work for part in functions}
    return _Function(source, table, own + sum(distinct.values()))


def _part(value: Value, node: Node, known: dict[Value, _Known]) -> _Known | None:
    """Return an operand as a function of a byte or as one number; None where it is neither."""
    if value.is_constant:
        return value.array.reshape(()) if value.type.elements == 1 else None
    if value in known:
        return known[value]
    if node.op != DEQUANTIZE or value.dtype not in BYTES:
        return None
    bits = np.arange(ENTRIES, dtype="uint8")
    return _Function(value, bits.view(value.dtype), 0)


def _evaluated(node: Node, arrays: Arrays, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return the call's results, of that shape; None where it works not element by element."""
    try:
        with np.errstate(all="ignore"):
            made = np.asarray(_OPERATORS[node.op](node, arrays))
    except NotInNumpyError:
        return None
    return made.astype(node.outputs[0].dtype) if made.shape == shape else None


def _rounded(node: Node, arrays: Arrays) -> np.ndarray:
    return np.asarray(np.rint(arrays[0]))


def _dequantized(node: Node, arrays: Arrays) -> np.ndarray:
    x, scale, zero = arrays
    result: np.ndarray = (x.astype("int32") - zero).astype("float32") * scale.astype("float32")
    return result


# What works on each element alone; of the others none may compute on a table.
_OPERATORS: dict[str, Callable[[Node, Arrays], Any]] = {
    **{name: NUMPY_OPERATORS[name] for name in (*ELEMENTWISE, "cast", "clip", "divide")},
    DEQUANTIZE: _dequantized,
    ROUND_EVEN: _rounded,
}
