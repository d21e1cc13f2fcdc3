"""The flows of a whole graph: where channels begin, pass and end."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.rewrite.channels import elementwise, moves, products
from tvm_fusionx.rewrite.channels.flow import Flow, Follow

# Channels begin at these, whatever their operands are.
PRODUCTS: dict[str, Follow] = {
    **dict.fromkeys(products.CONVOLUTIONS, products.follow_convolution),
    **dict.fromkeys(products.TRANSPOSED, products.follow_convolution),
    **dict.fromkeys(("nn.dense", "nn.matmul"), products.follow_dense),
}

# They pass through these; at all other calls they end.
PASSED: dict[str, Follow] = {
    **dict.fromkeys(elementwise.OPERATORS, elementwise.follow_elementwise),
    **dict.fromkeys(elementwise.ALONG_AN_AXIS, elementwise.follow_along_axis),
    **dict.fromkeys(moves.RESHAPES, moves.follow_reshape),
    **dict.fromkeys(moves.REDUCTIONS, moves.follow_reduction),
    **dict.fromkeys(moves.WITH_LAYOUT, moves.follow_layout),
    "concatenate": moves.follow_concatenation,
    "nn.pad": moves.follow_pad,
    "split": moves.follow_split,
    "strided_slice": moves.follow_slice,
    "transpose": moves.follow_transpose,
}


@dataclass
class Flows:
    """What calls of a graph do with channels."""

    of: dict[Node, Flow] = field(default_factory=dict)
    """Operands before users."""

    ends: dict[Value, str] = field(default_factory=dict)
    """Values whose channels all stay, and why."""

    @property
    def products(self) -> list[Node]:
        """Return the calls at which channels begin."""
        return [node for node, flow in self.of.items() if flow.product is not None]


def follow(graph: Graph) -> Flows:
    """Return the flows of a graph: from each product with constant weights on."""
    flows = Flows()
    axes: dict[Value, int] = {}
    for node in graph.calls():
        passed = PRODUCTS.get(node.op)
        if passed is None:
            if not any(value in axes for value in node.operands):
                continue
            passed = PASSED.get(node.op)
        found = f"{node.op} reads them" if passed is None else passed(node, axes)
        if isinstance(found, str):
            reason = found if passed is None else f"{node.op}: {found}"
            flows.ends.update((value, reason) for value in node.operands if value in axes)
            continue
        flows.of[node] = found
        for value, axis in found.axes.items():
            if value.shape[axis] > 1:
                axes[value] = axis
            else:
                flows.ends[value] = "it is the only one"
    flows.ends.update((value, "the model returns them") for value in graph.outputs if value in axes)
    return flows
