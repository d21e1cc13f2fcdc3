"""What a bundle is generated from: tensors and where they lie, calls, copies, ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm

from tvm_fusionx.build.kernels import KernelGraph, Tensor
from tvm_fusionx.build.memory import Entry, ModelMemory, root_of
from tvm_fusionx.bundle.names import distinct_identifiers
from tvm_fusionx.bundle.streaming import loaded_bytes, loads_of
from tvm_fusionx.bundle.weights import Weights
from tvm_fusionx.errors import ModelError
from tvm_fusionx.late_passes.workspaces import Workspace

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
        said = self.name.replace("*/", "* /").replace("\n", " ")
        return f"{said} [{', '.join(map(str, self.shape))}] {self.tensor.dtype}"


@dataclass
class Description:
    """All that the templates fill in."""

    inputs: list[Port]
    outputs: list[Port]
    shapes: list[int] = field(default_factory=lambda: [0])
    tensors: list[dict[str, Any]] = field(default_factory=list)
    arguments: list[int] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    copies: list[dict[str, int]] = field(default_factory=list)
    loads: list[dict[str, int]] = field(default_factory=list)
    has_workspace: bool = False

    def as_fields(self) -> dict[str, Any]:
        """Return the fields by name, with what follows from them."""
        return {
            **vars(self),
            "arguments": self.arguments or [0],
            "symbols": sorted({call["symbol"] for call in self.calls}),
            "most_arguments": max((call["count"] for call in self.calls), default=1),
            "input_bytes": [port.bytes for port in self.inputs],
            "output_bytes": [port.bytes for port in self.outputs],
        }


def describe(
    graph: KernelGraph,
    params: Mapping[str, Any],
    memory: ModelMemory,
    weights: Weights,
    workspaces: Mapping[str, Workspace],
    is_streamed: bool = False,
) -> Description:
    """Return the description of a planned library.

    Raises
    ------
    ModelError
        An input or output has a type that C has no name for, or there is nothing to return.
    """
    inputs = [node for node in graph.nodes if not node.is_call and node.name not in params]
    tensors = [graph.nodes[node].outputs[place] for node, place in graph.outputs]
    fields = distinct_identifiers([node.name for node in inputs])
    returned = [f"output_{number}" for number in range(len(tensors))]
    described = Description(
        [Port(node.name, name, node.outputs[0]) for node, name in zip(inputs, fields, strict=True)],
        [Port(name, name, tensor) for name, tensor in zip(returned, tensors, strict=True)],
    )
    for port in (*described.inputs, *described.outputs):
        if port.tensor.dtype not in C_TYPES:
            raise ModelError(
                f"tensor {port.name!r}",
                expected=f"one of the types {', '.join(C_TYPES)}",
                found=port.tensor.dtype,
                next_step="Cast it in the model.",
            )
    _Rows(described, graph, params, memory, weights, workspaces, is_streamed).fill()
    return described


@dataclass
class _Rows:
    """Fills the tables of a description."""

    out: Description
    graph: KernelGraph
    params: Mapping[str, Any]
    memory: ModelMemory
    weights: Weights
    workspaces: Mapping[str, Workspace]
    is_streamed: bool = False
    _known: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _shapes: dict[tuple[int, ...], int] = field(default_factory=dict)
    _places: dict[Entry, Place] = field(default_factory=dict)

    def fill(self) -> None:
        """Fill them."""
        inputs = [node for node in self.graph.nodes if not node.is_call]
        numbers = {port.name: number for number, port in enumerate(self.out.inputs)}
        for node in inputs:
            is_weight = node.name in self.params
            where = WEIGHTS if is_weight else INPUT
            offset = self.weights.offsets[node.name] if is_weight else 0
            number = 0 if is_weight else numbers[node.name]
            self._places[node.index, 0] = (where, number, offset)
        copied = []
        written: dict[int, int] = {}
        for number, entry in enumerate(self.graph.outputs):
            root = root_of(self.graph, entry)
            if root in self._places:
                # An input, a constant, or what another output returns already.
                copied.append((number, entry))
            else:
                self._places[root] = (OUTPUT, number, 0)
                written[self.memory.buffers[root]] = number
        for entry, buffer in self.memory.buffers.items():
            if not self.memory.plan.program.buffers[buffer].is_outside:
                home, offset = self.memory.plan.place_of(buffer)
                lent = (OUTPUT, written[home], offset) if home is not None else None
                self._places[entry] = lent or (ARENA, 0, offset)
        kernels = self.graph.kernels
        for position, number in enumerate(self.memory.plan.order):
            self._add_call(position, kernels[number])
        for number, entry in copied:
            self._check_copied(entry)
            size = self.graph.nodes[entry[0]].outputs[entry[1]].bytes
            row = {"bytes": size, "output": number, "source": self._tensor(entry)}
            self.out.copies.append(row)

    def _add_call(self, position: int, node: Any) -> None:
        entries = [*node.inputs, *((node.index, place) for place in range(len(node.outputs)))]
        first_load = len(self.out.loads)
        own = self._load(position, node) if self.is_streamed else {}
        need = self.workspaces.get(node.function, Workspace())
        self.out.has_workspace |= need != Workspace()
        self.out.calls.append(
            {
                "symbol": node.function,
                "first": len(self.out.arguments),
                "count": len(entries),
                "workspace": self.memory.plan.workspace_offset(position),
                "shared_bytes": need.bytes,
                "task_bytes": need.bytes_a_task,
                "first_load": first_load,
                "loads": len(self.out.loads) - first_load,
            }
        )
        self.out.arguments.extend(self._tensor(entry, own) for entry in entries)

    def _load(self, position: int, node: Any) -> dict[Entry, Place]:
        """Add what is read for a call, and return where it lies while it runs."""
        loads = loads_of(self.graph, node, self.params)
        number = self.memory.plan.order[position]
        workspace = self.memory.plan.program.calls[number].workspace_bytes - loaded_bytes(loads)
        begin = self.memory.plan.workspace_offset(position) + workspace
        numbers = {each.name: each.index for each in self.graph.nodes if not each.is_call}
        own: dict[Entry, Place] = {}
        for load in loads:
            own[numbers[load.name], 0] = (ARENA, 0, begin + load.place)
            source = self.weights.offsets[load.name]
            row = {"source": source, "place": begin + load.place, "bytes": load.bytes}
            self.out.loads.append(row)
        return own

    def _check_copied(self, entry: Entry) -> None:
        if self.is_streamed and self._places[root_of(self.graph, entry)][0] == WEIGHTS:
            raise ModelError(
                "output of a bundle with streamed weights",
                expected="something that the model computes",
                found="a constant",
                next_step="Export it with weights='beside', or leave the output out.",
            )

    def _tensor(self, entry: Entry, own: Mapping[Entry, Place] | None = None) -> int:
        """Return the number of a tensor's row; a view has a row of its own, in the same place."""
        tensor = self.graph.nodes[entry[0]].outputs[entry[1]]
        root = root_of(self.graph, entry)
        where, number, place = (own or {}).get(root) or self._places[root]
        kind = tvm.DataType(tensor.dtype)
        if tensor.shape not in self._shapes:
            self._shapes[tensor.shape] = len(self.out.shapes)
            self.out.shapes.extend(tensor.shape)
        row = {
            "where": where,
            "number": number,
            "place": place,
            "shape": self._shapes[tensor.shape],
            "ndim": len(tensor.shape),
            "code": int(kind.type_code),
            "bits": int(kind.bits),
        }
        key = tuple(row.values())
        if key not in self._known:
            self._known[key] = len(self.out.tensors)
            self.out.tensors.append(row)
        return self._known[key]
