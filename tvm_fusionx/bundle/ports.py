"""The inputs and outputs of a bundle's interface, and where each tensor of a model lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_fusionx.build.kernels import KernelGraph, Tensor
from tvm_fusionx.build.memory import Entry, ModelMemory, root_of
from tvm_fusionx.bundle.names import distinct_identifiers, kotlin_name
from tvm_fusionx.bundle.weights import Weights
from tvm_fusionx.errors import ModelError

# Types of the header. C has no half floats: their bits.
C_TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "bool": "uint8_t",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
NUMPY_TYPES = {"bfloat16": "uint16"}
# Which a tensor's place is counted from, as the generated code calls them.
ARENA, WEIGHTS, INPUT, OUTPUT = "IN_ARENA", "IN_WEIGHTS", "IN_INPUT", "IN_OUTPUT"


Place = tuple[str, int, int]
"""Which of these, its number there, and bytes from its beginning."""


@dataclass(frozen=True)
class Port:
    """An input or output of the generated interface."""

    name: str
    field: str
    tensor: Tensor

    @property
    def kotlin_field(self) -> str:
        """Return the name of its property in Kotlin."""
        return kotlin_name(self.field)

    @property
    def c_type(self) -> str:
        """Return the type of its elements in C."""
        return C_TYPES[self.tensor.dtype]

    @property
    def numpy_type(self) -> str:
        """Return the type of its elements in numpy."""
        return NUMPY_TYPES.get(self.tensor.dtype, self.tensor.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return its extents."""
        return self.tensor.shape

    @property
    def bytes(self) -> int:
        """Return its size."""
        return self.tensor.bytes

    @property
    def elements(self) -> int:
        """Return how many elements it has."""
        return self.bytes // max(1, tvm.DataType(self.tensor.dtype).bits // 8)

    @property
    def about(self) -> str:
        """Return what a comment says of it: the model's name, extents, type."""
        said = "".join(each if each.isprintable() else " " for each in self.name)
        said = said.replace("*/", "* /").replace("/*", "/ *")
        return f"{said} [{', '.join(map(str, self.shape))}] {self.tensor.dtype}"


def ports_of(graph: KernelGraph, params: Mapping[str, Any]) -> tuple[list[Port], list[Port]]:
    """Return the inputs and the outputs of a graph.

    Raises
    ------
    ModelError
        One has a type that C has no name for.
    """
    inputs = [node for node in graph.nodes if not node.is_call and node.name not in params]
    tensors = [graph.nodes[node].outputs[place] for node, place in graph.outputs]
    returned = [f"output_{number}" for number in range(len(tensors))]
    # The header has macros by these names, so that no input may be called as an output is.
    fields = distinct_identifiers([*returned, *(node.name for node in inputs)])[len(returned) :]
    taken = [
        Port(node.name, name, node.outputs[0]) for node, name in zip(inputs, fields, strict=True)
    ]
    given = [Port(name, name, tensor) for name, tensor in zip(returned, tensors, strict=True)]
    for port in (*taken, *given):
        if port.tensor.dtype not in C_TYPES:
            raise ModelError(
                f"tensor {port.name!r}",
                expected=f"one of the types {', '.join(C_TYPES)}",
                found=port.tensor.dtype,
                next_step="Cast it in the model.",
            )
    return taken, given


def places_of(
    graph: KernelGraph, params: Mapping[str, Any], memory: ModelMemory, weights: Weights
) -> tuple[dict[Entry, Place], list[tuple[int, Entry]]]:
    """Return where each tensor lies that is no view, and the outputs that are only copied.

    Those are an input, a constant, or what another output returns already.
    """
    places: dict[Entry, Place] = {}
    inputs = 0
    for node in graph.nodes:
        if node.is_call:
            continue
        if node.name in params:
            places[node.index, 0] = (WEIGHTS, 0, weights.offsets[node.name])
        else:
            places[node.index, 0] = (INPUT, inputs, 0)
            inputs += 1
    copied = []
    written: dict[int, int] = {}
    for number, entry in enumerate(graph.outputs):
        root = root_of(graph, entry)
        if root in places:
            copied.append((number, entry))
        else:
            places[root] = (OUTPUT, number, 0)
            written[memory.buffers[root]] = number
    for entry, buffer in memory.buffers.items():
        if not memory.plan.program.buffers[buffer].is_outside:
            home, offset = memory.plan.place_of(buffer)
            lent = (OUTPUT, written[home], offset) if home is not None else None
            places[entry] = lent or (ARENA, 0, offset)
    return places, copied
