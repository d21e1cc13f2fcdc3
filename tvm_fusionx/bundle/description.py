"""What a bundle is generated from: tensors and where they lie, calls, copies, ports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm

from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.build.memory import Entry, ModelMemory, root_of
from tvm_fusionx.bundle.ports import ARENA, WEIGHTS, Place, Port, places_of, ports_of
from tvm_fusionx.bundle.streaming import loaded_bytes, loads_of
from tvm_fusionx.bundle.weights import Weights
from tvm_fusionx.errors import ModelError
from tvm_fusionx.late_passes.workspaces import Workspace


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
    described = Description(*ports_of(graph, params))
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
        self._places, copied = places_of(self.graph, self.params, self.memory, self.weights)
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
