"""Weights that are read from their file for one kernel at a time, into the arena.

A kernel's constants are a part of its workspace then: planned like it, and gone behind it. So the
arena is all that a run takes beside inputs and outputs, to the byte, whatever the system keeps of
the file. What several kernels read is read for each of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from tvm_fusionx.build.kernels import GraphNode, KernelGraph
from tvm_fusionx.build.memory import ModelMemory, root_of
from tvm_fusionx.memory import plan_memory
from tvm_fusionx.memory.lifetimes import aligned


@dataclass(frozen=True)
class Load:
    """A constant that a call reads: its name, and where it lies behind the call's own workspace."""

    name: str
    place: int
    bytes: int


def loads_of(graph: KernelGraph, kernel: GraphNode, constants: Collection[str]) -> list[Load]:
    """Return the constants that a kernel reads, each once, and places for them one by one."""
    found: dict[str, Load] = {}
    place = 0
    for entry in kernel.inputs:
        node = graph.nodes[root_of(graph, entry)[0]]
        if node.name in constants and node.name not in found:
            size = node.outputs[0].bytes
            found[node.name] = Load(node.name, place, size)
            place += aligned(size)
    return list(found.values())


def loaded_bytes(loads: Collection[Load]) -> int:
    """Return the bytes that constants take behind a workspace, a multiple of the alignment."""
    return sum(aligned(load.bytes) for load in loads)


def streamed(memory: ModelMemory, graph: KernelGraph, constants: Collection[str]) -> ModelMemory:
    """Return the memory of a model whose constants are read for each kernel into its workspace."""
    program = memory.plan.program
    calls = tuple(
        replace(
            call,
            workspace_bytes=aligned(call.workspace_bytes)
            + loaded_bytes(loads_of(graph, kernel, constants)),
        )
        for call, kernel in zip(program.calls, graph.kernels, strict=True)
    )
    return replace(memory, plan=plan_memory(replace(program, calls=calls)), weights=0)
