"""What a bundle for OpenCL is generated from: parts of memory, launches, sources of kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.build.memory import Entry, ModelMemory, memory_of, root_of
from tvm_fusionx.bundle.ports import ARENA, Place, Port, places_of, ports_of
from tvm_fusionx.bundle.weights import Weights
from tvm_fusionx.errors import TargetError
from tvm_fusionx.late_passes.launches import Launch, Launches, launches_of
from tvm_fusionx.late_passes.workspaces import Workspace
from tvm_fusionx.schedules.lowering_log import LoweringLog

# Parts of a buffer begin at multiples of CL_DEVICE_MEM_BASE_ADDR_ALIGN: 128 bytes on Adreno, Mali
# and PoCL, 256 on AMD's, 512 on NVIDIA's, the most that drivers ask for; the library checks it.
DEVICE_ALIGNMENT = 512
_FUNCTION = re.compile(r"^// Function: (\w+)$", re.MULTILINE)
# TVM declares every kernel of a model in front of each one.
_DECLARATION = re.compile(r"^__kernel void [^\n]*\);\n", re.MULTILINE)


@dataclass
class DeviceDescription:
    """All that the templates fill in."""

    inputs: list[Port]
    outputs: list[Port]
    parts: list[dict[str, Any]] = field(default_factory=list)
    """Each a piece of memory that a kernel is given: in what, which, from where, how long."""
    arguments: list[int] = field(default_factory=list)
    """Numbers of parts, of one launch after the other."""
    launches: list[dict[str, Any]] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    """The part that each output is read from."""
    kernels: list[dict[str, Any]] = field(default_factory=list)
    """Names, and where in the text of all sources each one's begins and how long it is."""
    source: str = ""

    def as_fields(self) -> dict[str, Any]:
        """Return the fields by name, with what follows from them."""
        return {
            **vars(self),
            "arguments": self.arguments or [0],
            "input_bytes": [port.bytes for port in self.inputs],
            "output_bytes": [port.bytes for port in self.outputs],
        }


def launches_of_graph(graph: KernelGraph, log: LoweringLog) -> dict[str, Launches]:
    """Return what each function of an executor's graph launches.

    Raises
    ------
    TargetError
        A tensor is an image, or a function does more than to launch.
    """
    for node in graph.nodes:
        if node.scope:
            raise TargetError(
                f"memory of {node.name!r} in a bundle",
                expected="a buffer",
                found=f"an image ({node.scope})",
                next_step="Build the model for plain 'opencl', without activation images.",
            )
    symbols = dict.fromkeys(node.function for node in graph.kernels)
    return {symbol: launches_of(symbol, log.hosts, log.devices) for symbol in symbols}


def memory_on_device(library: Any, launches: Mapping[str, Launches]) -> ModelMemory:
    """Plan a device's memory for a graph-executor library."""
    needs = {
        symbol: Workspace(sum(map(_aligned, each.workspaces))) for symbol, each in launches.items()
    }
    graph, params = library.get_graph_json(), library.get_params()
    return memory_of(graph, params, needs, alignment=DEVICE_ALIGNMENT)


def device_bytes(described: DeviceDescription, memory: ModelMemory, weights: Weights) -> int:
    """Return what all buffers take on the device: weights, arena, inputs and outputs."""
    ports = [*described.inputs, *described.outputs]
    whole = [len(weights.data), memory.plan.arena_bytes, *(port.bytes for port in ports)]
    return sum(map(buffer_bytes, whole))


def buffer_bytes(size: int) -> int:
    """Return the bytes of a buffer that holds `size`: none has none."""
    return max(_aligned(size), DEVICE_ALIGNMENT)


def describe_device(
    graph: KernelGraph,
    params: Mapping[str, Any],
    memory: ModelMemory,
    weights: Weights,
    launches: Mapping[str, Launches],
    source: str,
) -> DeviceDescription:
    """Return the description of a planned library for a device.

    Parameters
    ----------
    source
        OpenCL C of all kernels, as TVM prints it.

    Raises
    ------
    ModelError
        An input or output has a type that C has no name for.
    """
    described = DeviceDescription(*ports_of(graph, params))
    rows = _Rows(described, graph, places_of(graph, params, memory, weights)[0])
    for position, number in enumerate(memory.plan.order):
        rows.add_call(graph.kernels[number], memory.plan.workspace_offset(position), launches)
    described.results = [rows.part(entry) for entry in graph.outputs]
    _add_sources(described, source, list(rows.kernels))
    return described


class _Rows:
    """Fills the tables of a description."""

    def __init__(
        self,
        out: DeviceDescription,
        graph: KernelGraph,
        places: dict[Entry, Place],
    ) -> None:
        self.out = out
        self.graph = graph
        self.places = places
        self.kernels: dict[str, int] = {}
        self._known: dict[tuple[Any, ...], int] = {}

    def add_call(self, node: Any, workspace: int, launches: Mapping[str, Launches]) -> None:
        """Add the launches of a call, whose workspace begins at `workspace`."""
        entries = [*node.inputs, *((node.index, place) for place in range(len(node.outputs)))]
        found = launches[node.function]
        begins = [workspace]
        for size in found.workspaces:
            begins.append(begins[-1] + _aligned(size))
        for launch in found.launches:
            self._add_launch(launch, entries, begins, found.workspaces)

    def _add_launch(
        self, launch: Launch, entries: list[Entry], begins: list[int], sizes: tuple[int, ...]
    ) -> None:
        kernel = self.kernels.setdefault(launch.kernel, len(self.kernels))
        pairs = zip(launch.groups, launch.items, strict=True)
        self.out.launches.append(
            {
                "kernel": kernel,
                "first": len(self.out.arguments),
                "count": len(launch.operands),
                "whole": [groups * items for groups, items in pairs],
                "group": list(launch.items),
            }
        )
        for operand in launch.operands:
            number = operand.number
            self.out.arguments.append(
                self._row((ARENA, 0, begins[number]), sizes[number])
                if operand.is_workspace
                else self.part(entries[number])
            )

    def part(self, entry: Entry) -> int:
        """Return the number of a tensor's part; a view's is that of what it views."""
        size = self.graph.nodes[entry[0]].outputs[entry[1]].bytes
        return self._row(self.places[root_of(self.graph, entry)], size)

    def _row(self, place: Place, size: int) -> int:
        where, number, begin = place
        key = (where, number, begin, size)
        if key not in self._known:
            self._known[key] = len(self.out.parts)
            row = {"where": where, "number": number, "place": begin, "bytes": max(1, size)}
            self.out.parts.append(row)
        return self._known[key]


def _add_sources(described: DeviceDescription, source: str, kernels: list[str]) -> None:
    own = sources_of(source)
    text = ""
    for name in kernels:
        if name not in own:
            raise TargetError(
                f"kernel {name}",
                expected="OpenCL C of it in the library",
                found=f"sources of {len(own)} others",
                next_step="Build the model for plain 'opencl'.",
            )
        row = {"name": name, "begin": len(text), "length": len(own[name])}
        described.kernels.append(row)
        text += own[name]
    described.source = text


def device_source(module: Any) -> str:
    """Return the OpenCL C of a compiled library, as TVM prints it; empty without kernels."""
    waiting = [module]
    while waiting:
        each = waiting.pop()
        if each.type_key == "opencl":
            return str(each.get_source())
        waiting.extend(each.imported_modules)
    return ""


def sources_of(source: str) -> dict[str, str]:
    """Return the program of each kernel, without declarations of the others."""
    begins = [*_FUNCTION.finditer(source)]
    ends = [*(each.start() for each in begins[1:]), len(source)]
    return {
        begin[1]: _DECLARATION.sub("", source[begin.end() + 1 : end])
        for begin, end in zip(begins, ends, strict=True)
    }


def _aligned(size: int) -> int:
    return -(-size // DEVICE_ALIGNMENT) * DEVICE_ALIGNMENT
