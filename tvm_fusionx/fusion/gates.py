"""Gates: a tensor scaled by another one before a convolution, as squeeze-and-excite does.

The convolution's kernel gathers its input once for each task, so a few operations on each element
of it cost less there than a pass over memory would. Only what hangs on a gate is done so: other
elementwise work belongs to the kernel that produces the tensor, where it is free.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.fusion.classify import broadcasts, is_elementwise
from tvm_fusionx.operators import TRANSCENDENTALS

# Convolutions whose template gathers its input.
GATHERING = frozenset(["nn.contrib_conv2d_NCHWc"])

# A gate and the hard-swish after it are five.
MOST_OPERATORS = 5


def are_gates(before: Sequence[Node], window: Node) -> bool:
    """Tell whether `before`, all that a block computes before `window`, can go into its gathering.

    Parameters
    ----------
    before
        Calls of one block whose results the window needs, operands before users.
    window
        A Many-to-Many call.
    """
    if window.op not in GATHERING or not before or len(before) > MOST_OPERATORS:
        return False
    if any(value.node in before for value in window.operands[1:]):
        return False
    elements = window.operands[0].type.elements
    gated: set[Node] = set()
    for node in before:
        is_whole = is_elementwise(node) and node.outputs[0].elements == elements
        if not is_whole or node.op in TRANSCENDENTALS:
            return False
        if broadcasts(node) or any(value.node in gated for value in node.operands):
            gated.add(node)
    return len(gated) == len(before)
