"""A quantization whose bytes are shifted, and nothing else, has the shift in its zero point.

An instruction multiplies bytes of one sign, and a quantized tensor may have the other one. Where
the shift alone reads it, the quantization makes the shifted bytes itself::

    int8(int16(uint8(clip(round(x) + z, 0, 255))) - 128)  ->  int8(clip(round(x) + z - 128,
                                                                        -128, 127))

The numbers are the same: all of them are whole, and a bound moves with what it bounds.
"""

from __future__ import annotations

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.rewrite.quantized import BYTES, ROUND_EVEN, shift_between

FLOAT = "float32"


def shift_in_quantizations(graph: Graph) -> int:
    """Let quantizations make shifted bytes, in place; return how many."""
    count = 0
    for node in graph.calls():
        if node.op != "cast" or not graph.contains(node):
            continue
        shifted = _shifted(graph, node)
        if shifted is not None:
            graph.replace(node[0], shifted)
            count += 1
    if count:
        graph.prune()
    return count


def _shifted(graph: Graph, node: Node) -> Value | None:
    """Return the shifted bytes that a cast makes of a quantization; None of anything else."""
    chain = [node.operands[0]]
    for op in ("add", "cast", "cast"):
        if chain[-1].op != op or not graph.has_single_user(chain[-1]):
            return None
        chain.append(chain[-1].node.operands[0])
    added, _, quantized, clip = chain
    types = quantized.dtype, node.outputs[0].dtype
    if clip.op != "clip" or clip.dtype != FLOAT or not all(each in BYTES for each in types):
        return None
    shift = _number(added.node.operands[1])
    if shift is None or shift != shift_between(*types) or not graph.has_single_user(clip):
        return None
    rounded, zero = clip.node.operands[0], 0.0
    if rounded.op == "add":
        rounded, point = rounded.node.operands
        number = _number(point)
        if number is None or not number.is_integer():
            return None
        zero = number
    if rounded.op != ROUND_EVEN:
        return None
    name = clip.node.name
    if zero + shift:
        rounded = graph.call("add", [rounded, graph.constant(zero + shift, FLOAT)], name=name)
    bounds = {side: float(clip.node.attrs[side]) + shift for side in ("a_min", "a_max")}
    bounded = graph.call("clip", [rounded], clip.node.attrs.replace(**bounds), name=name)
    return graph.call("cast", [bounded], {"dtype": types[1]}, name=node.name)


def _number(value: Value) -> float | None:
    """Return the only element of a constant, or None."""
    if not value.is_constant or value.type.elements != 1:
        return None
    return float(value.array.reshape(()))
