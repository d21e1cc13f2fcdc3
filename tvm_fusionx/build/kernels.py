"""What a built graph-executor library launches, read from its graph JSON, and what is noted of it.

The JSON is TVM's own: nodes in execution order, each with inputs, storage, shapes and dtypes, and
the string attributes of the Relay function it came from, our block name among them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.schedules.block_work import Work

# TVM's name for a node that only gives its input another shape and launches nothing.
NO_OP = "__nop"

BLOCK_ATTRIBUTE = "fusionx.block"
NODES_ATTRIBUTE = "fusionx.nodes"

BITS_PER_BYTE = 8

# What the executor's graph calls a type that Relay and numpy call something else.
EXECUTORS_NAMES = {"uint1": "bool"}


@dataclass(frozen=True)
class Tensor:
    """One output of a graph node: shape and dtype."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """Return the size in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * _bytes_per_element(self.dtype)


@dataclass(frozen=True)
class GraphNode:
    """One node of the executor's graph.

    Attributes
    ----------
    index
        Position in the graph JSON, which is the execution order.
    name
        The block's name where the node is one of our blocks, else TVM's name.
    function
        The symbol called; empty for an input or a parameter.
    inputs
        ``(node index, output index)`` of each operand.
    outputs
        Shape and dtype of each output.
    operators
        Names of the model's own nodes that the block computes, where known.
    scope
        Where its first output lies, where not in a plain buffer: TVM's name of an OpenCL image.
    """

    index: int
    name: str
    function: str
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[Tensor, ...]
    operators: tuple[str, ...]
    scope: str = ""

    @property
    def is_call(self) -> bool:
        """Tell whether the node is an operation, not an input or a parameter."""
        return bool(self.function)

    @property
    def is_kernel(self) -> bool:
        """Tell whether the node launches work."""
        return self.is_call and self.function != NO_OP


@dataclass(frozen=True)
class KernelGraph:
    """The executor's graph: nodes in execution order, and which outputs are the model's."""

    nodes: tuple[GraphNode, ...]
    outputs: tuple[tuple[int, int], ...]

    @classmethod
    def from_json(cls, text: str) -> KernelGraph:
        """Read the graph JSON of a graph-executor factory (``lib.get_graph_json()``)."""
        graph = json.loads(text)
        first_entry = graph["node_row_ptr"]
        shapes = graph["attrs"]["shape"][1]
        dtypes = [EXECUTORS_NAMES.get(name, name) for name in graph["attrs"]["dltype"][1]]
        scopes = graph["attrs"].get("storage_scope", ("", [""] * len(shapes)))[1]
        nodes = []
        for index, node in enumerate(graph["nodes"]):
            entries = range(first_entry[index], first_entry[index + 1])
            attributes: dict[str, Any] = node.get("attrs", {})
            operators = attributes.get(NODES_ATTRIBUTE, "")
            nodes.append(
                GraphNode(
                    index=index,
                    name=attributes.get(BLOCK_ATTRIBUTE) or node["name"],
                    function=attributes.get("func_name", "") if node["op"] == "tvm_op" else "",
                    inputs=tuple((source, output) for source, output, *_ in node["inputs"]),
                    outputs=tuple(Tensor(tuple(shapes[e]), dtypes[e]) for e in entries),
                    operators=tuple(name for name in operators.split(",") if name),
                    scope=scopes[first_entry[index]],
                )
            )
        heads = tuple((source, output) for source, output, *_ in graph["heads"])
        return cls(tuple(nodes), heads)

    @property
    def kernels(self) -> tuple[GraphNode, ...]:
        """Return the nodes that launch work."""
        return tuple(node for node in self.nodes if node.is_kernel)

    @property
    def read_by_kernels_alone(self) -> set[str]:
        """Return the inputs and constants that are no output and of which no view is taken.

        Only of these may the memory be another than the executor's: outputs and views keep to it.
        """
        no_ops = [node for node in self.nodes if node.function == NO_OP]
        views = [entry for node in no_ops for entry in node.inputs]
        kept = {index for index, _ in (*self.outputs, *views)}
        return {node.name for node in self.nodes if not node.is_call and node.index not in kept}

    @property
    def intermediate_bytes(self) -> int:
        """Return the bytes that kernels write for other kernels: all but the model's outputs."""
        leaving = self._outputs_through_no_ops()
        return sum(
            tensor.bytes
            for node in self.kernels
            for position, tensor in enumerate(node.outputs)
            if (node.index, position) not in leaving
        )

    def _outputs_through_no_ops(self) -> set[tuple[int, int]]:
        """Return the outputs, each followed back through no-op reshapes to its kernel."""
        leaving = set()
        for index, position in self.outputs:
            while self.nodes[index].function == NO_OP:
                index, position = self.nodes[index].inputs[0]
            leaving.add((index, position))
        return leaving


@dataclass(frozen=True)
class KernelNote:
    """What is known about one kernel when it is compiled.

    Attributes
    ----------
    name
        The block's name.
    operators
        Names of the model's nodes in it.
    template
        The template that scheduled it; empty where unknown.
    flops
        Floating-point operations of its operators, a convolution counted as the direct one whatever
        computes it; None where unknown.
    is_tuned
        Whether a tuner chose the values of the template's knobs; None where unknown.
    work
        What one run takes at least; None where unknown, as for TVM's own schedules.
    """

    name: str
    operators: tuple[str, ...] = ()
    template: str = ""
    flops: int | None = None
    is_tuned: bool | None = None
    work: Work | None = None

    @classmethod
    def from_json(cls, note: Mapping[str, Any]) -> KernelNote:
        """Read what ``dataclasses.asdict`` made of a note, also one without the later fields."""
        work = note.get("work")
        return cls(
            str(note["name"]),
            tuple(note["operators"]),
            note["template"],
            note["flops"],
            note.get("is_tuned"),
            None if work is None else Work(**work),
        )


def _bytes_per_element(dtype: str) -> int:
    if dtype == "bool":
        return 1
    bits = int("".join(character for character in dtype if character.isdigit()) or BITS_PER_BYTE)
    return max(1, bits // BITS_PER_BYTE)
