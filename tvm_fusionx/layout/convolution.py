"""Choose NCHWc layouts for the convolutions of a graph, once for each connected region.

Walks the graph from inputs to outputs. Every convolution that can be blocked is; what follows stays
blocked as long as each operator allows it; where one does not, the tensor is put back in order
once, for all readers. The chunk width depends on the number of channels alone, so that tensors that
meet (a residual and its sum) agree, and no layout changes between two convolutions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.layout.blocked_convolution import (
    CONV2D,
    block_convolution,
    sums_integers,
)
from tvm_fusionx.layout.blocked_elementwise import (
    BIAS,
    ELEMENTWISE,
    LOOK_UP,
    PRELU,
    RESHAPE,
    block_bias,
    block_elementwise,
    block_look_up,
    block_prelu,
    block_reshape,
    is_same_image,
)
from tvm_fusionx.layout.blocked_sampling import SAMPLE, block_sampling
from tvm_fusionx.layout.blocked_tensor import CHANNEL_AXIS, IMAGE_AXES, Blocked, Convert, leave
from tvm_fusionx.layout.blocked_windows import (
    CONCATENATE,
    LAYOUT_OPERATORS,
    PAD,
    REDUCTIONS,
    REPEAT,
    SLICE,
    block_concatenate,
    block_layout_operator,
    block_pad,
    block_reduction,
    block_repeat,
    block_slice,
    is_over_images,
)
from tvm_fusionx.layout.sub_pixel import CONV2D_TRANSPOSE, block_sub_pixel

logger = logging.getLogger(__name__)

# Chunks of 16 channels fill an AVX-512 register: half the instructions, and twice the sums in
# registers, of chunks of 8, which measured 6 % faster on a whole MobileNet.
WIDEST_VECTOR = 16

Carrier = Callable[[Graph, Node, Convert], "Blocked | None"]

# These carry sequences as well, which the axes of the others do not fit.
SEQUENCE_CARRIERS: dict[str, Carrier] = {
    **dict.fromkeys(ELEMENTWISE, block_elementwise),
    RESHAPE: block_reshape,
}

CARRIERS: dict[str, Carrier] = {
    **SEQUENCE_CARRIERS,
    **dict.fromkeys(LAYOUT_OPERATORS, block_layout_operator),
    **dict.fromkeys(REDUCTIONS, block_reduction),
    BIAS: block_bias,
    LOOK_UP: block_look_up,
    PRELU: block_prelu,
    PAD: block_pad,
    REPEAT: block_repeat,
    SLICE: block_slice,
    CONCATENATE: block_concatenate,
    SAMPLE: block_sampling,
}

_POINTWISE = ELEMENTWISE | {BIAS, LOOK_UP, PRELU}
_IN_BLOCKS = (CARRIERS.keys() - _POINTWISE - {RESHAPE}) | {CONV2D, CONV2D_TRANSPOSE}


def pack_convolutions(graph: Graph, cpu: Any, *, fill: bool = True) -> int:
    """Put the convolutions of `graph` and what surrounds them in NCHWc layout, in place.

    Parameters
    ----------
    graph
        The graph; float convolutions with constant weights are changed.
    cpu
        Whose vectors to fill: its float32 lanes, and what multiplies integers.
    fill
        Whether a convolution that is the last of its region may compute channels of zeros.

    Returns
    -------
    int
        Number of convolutions put in NCHWc.
    """
    vector = min(WIDEST_VECTOR, int(cpu.lanes))
    if cpu.dot is not None and any(
        each.op == CONV2D and sums_integers(each) for each in graph.calls()
    ):
        # A chunk of the data holds what an instruction multiplies.
        vector = max(vector, cpu.dot.depth)
    forms: dict[Value, Blocked] = {}
    images: dict[Value, Value] = {}
    packed = 0

    def blocked(value: Value) -> Blocked | None:
        return forms.get(value) if len(value.shape) == IMAGE_AXES else None

    for node in graph.calls():
        result: Blocked | Value | None = None
        if node.op == CONV2D:
            is_last = fill and _is_last(graph, node)
            dot = cpu.dot_for(node.operands[0].dtype) or cpu.dot
            result = block_convolution(graph, node, blocked, vector, dot, is_last=is_last, cpu=cpu)
            packed += result is not None
        elif node.op == CONV2D_TRANSPOSE:
            result = block_sub_pixel(graph, node, blocked, vector)
            packed += result is not None
        elif node.op in CARRIERS and any(value in forms for value in node.operands):
            known = forms.get if node.op in SEQUENCE_CARRIERS else blocked
            result = CARRIERS[node.op](graph, node, known)
        if isinstance(result, Blocked):
            forms[node[0]] = result
        elif result is not None:
            images[node[0]] = result
    _connect(graph, forms, images)
    logger.debug("%d convolutions in NCHWc", packed)
    return packed


def _is_last(graph: Graph, node: Node) -> bool:
    """Tell whether nothing but elementwise work reads a convolution's result in blocks."""
    channels = node.outputs[0].shape[CHANNEL_AXIS]
    pending, seen = [node], {node}
    while pending:
        for user in graph.users(pending.pop()):
            if user.op in _POINTWISE or (user.op == RESHAPE and is_same_image(user)):
                if user not in seen:
                    seen.add(user)
                    pending.append(user)
            elif _reads_blocks(user, channels):
                return False
    return True


def _reads_blocks(user: Node, channels: int) -> bool:
    """Tell whether a reader of so many channels, elementwise work aside, has a blocked form."""
    if user.op not in _IN_BLOCKS or len(user.operands[0].shape) != IMAGE_AXES:
        return False
    if user.op in REDUCTIONS:
        return is_over_images(user)
    # A slice of some channels has no blocked form.
    return user.op != SLICE or user.outputs[0].shape[CHANNEL_AXIS] == channels


def _connect(graph: Graph, forms: dict[Value, Blocked], images: dict[Value, Value]) -> None:
    """Make the readers that stay unblocked read the blocked tensors, put back in order."""
    done = {value.node for value in [*forms, *images]}
    for old, new in images.items():
        graph.replace(old, new)
    for old, form in forms.items():
        readers = [user for user in graph.users(old.node) if user not in done]
        if readers or graph.is_output(old.node):
            graph.replace(old, leave(graph, form, old.shape))
    graph.prune()
