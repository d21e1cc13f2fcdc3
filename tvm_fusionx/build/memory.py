"""A built model's memory: the plan of its arena, beside weights, inputs, outputs and TVM's plan."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.build.kernels import NO_OP, KernelGraph, Tensor
from tvm_fusionx.errors import ModelError, ShapeError
from tvm_fusionx.late_passes.in_place import Pairs
from tvm_fusionx.late_passes.workspaces import Workspace
from tvm_fusionx.memory import ALIGNMENT, Buffer, Call, MemoryPlan, Program, plan_memory

Entry = tuple[int, int]
"""A tensor of the executor's graph: node, and which of its outputs."""

UNITS = {
    "": 1,
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
}
_SIZE = re.compile(r"\s*(?P<number>\d{1,18}(\.\d+)?)\s*(?P<unit>[KMG]?i?B|)\s*")


@dataclass(frozen=True)
class ModelMemory:
    """What a model takes of memory when it runs from one arena, in bytes.

    Attributes
    ----------
    plan
        Of tensors between kernels, and of kernels' workspaces.
    buffers
        For each tensor that a kernel writes, its number in the plan's program.
    weights, inputs, outputs
        What lies outside of the arena.
    tvm_activations
        What TVM's plan of the same graph takes for tensors between kernels, inputs and outputs; no
        workspaces.
    """

    plan: MemoryPlan
    buffers: Mapping[Entry, int]
    weights: int
    inputs: int
    outputs: int
    tvm_activations: int

    @property
    def workspace(self) -> int:
        """Return the bytes of the hungriest kernel's workspace."""
        return max((call.workspace_bytes for call in self.plan.program.calls), default=0)

    @property
    def total(self) -> int:
        """Return everything: weights, inputs, outputs, and the arena."""
        return self.weights + self.inputs + self.outputs + self.plan.arena_bytes

    def as_json(self) -> dict[str, Any]:
        """Return the sizes, and the arena over time, in plain types."""
        plan = self.plan
        names = [plan.program.calls[number].name for number in plan.order]
        return {
            "weights_bytes": self.weights,
            "inputs_bytes": self.inputs,
            "outputs_bytes": self.outputs,
            "workspace_bytes": self.workspace,
            "arena_bytes": plan.arena_bytes,
            "arena_bound_bytes": plan.bound_bytes,
            "total_bytes": self.total,
            "tvm_activations_bytes": self.tvm_activations,
            "peak_bytes": max(plan.live, default=0),
            "peak_kernel": plan.peak_call,
            "is_reordered": plan.order != tuple(range(len(plan.order))),
            "is_best_order": plan.is_best_order,
            "is_solved": plan.is_solved,
            "kernels": [
                {"name": name, "live_bytes": live}
                for name, live in zip(names, plan.live, strict=True)
            ],
            "tensors": [
                {
                    "name": tenant.name,
                    "in": "arena" if home is None else plan.program.buffers[home].name,
                    "offset": offset,
                    "bytes": tenant.bytes,
                    "first": tenant.first,
                    "last": tenant.last,
                }
                for tenant, home, offset in zip(plan.tenants, plan.homes, plan.offsets, strict=True)
            ],
        }


def memory_of(
    graph_json: str,
    params: Mapping[str, Any],
    workspaces: Mapping[str, Workspace],
    tasks: int = 1,
    in_place: Mapping[str, Pairs] | None = None,
    **options: Any,
) -> ModelMemory:
    """Plan the memory of a graph-executor library.

    Parameters
    ----------
    graph_json, params
        Its graph and its constants.
    workspaces
        Of its kernels, by symbol, as the log of lowering has them.
    tasks
        Into how many tasks a parallel loop is cut: each has a workspace of its own.
    in_place
        Which results of its kernels may lie where which operands do, by symbol.
    **options
        Of :func:`tvm_fusionx.memory.plan_memory`.
    """
    graph = KernelGraph.from_json(graph_json)
    program, buffers = program_of(graph, workspaces, tasks, in_place or {})
    inputs = [node for node in graph.nodes if not node.is_call and node.name not in params]
    return ModelMemory(
        plan=plan_memory(program, **options),
        buffers=buffers,
        weights=sum(_aligned(node.outputs[0]) for node in graph.nodes if node.name in params),
        inputs=sum(node.outputs[0].bytes for node in inputs),
        outputs=sum(graph.nodes[node].outputs[place].bytes for node, place in graph.outputs),
        tvm_activations=tvm_activations(graph_json, params),
    )


def memory_of_build(library: Any, log: Any, tasks: int = 1) -> ModelMemory:
    """Plan the memory of a graph-executor factory module, whose lowering left `log`."""
    graph, params = library.get_graph_json(), library.get_params()
    return memory_of(graph, params, log.workspaces, tasks, log.in_place)


def no_known_memory(reason: str) -> ModelError:
    """Return the error that says that a model has no plan of its memory.

    Parameters
    ----------
    reason
        What it needs the virtual machine for, in words.
    """
    return ModelError(
        "memory of the model",
        expected="shapes that are known before it runs",
        found=f"a model for TVM's virtual machine, which takes memory as it runs: {reason}",
        next_step="Ask 'fusionx memory MODEL' what its parts of known shapes take. Leave the limit"
        " (--memory-limit, memory_limit=) and --bundle out, or the executor where it was asked for,"
        " or cut the model there: onnx.utils.extract_model(file, new_file, inputs, outputs).",
    )


def root_of(graph: KernelGraph, entry: Entry) -> Entry:
    """Return the tensor whose memory `entry` is: itself, or what it only gives another shape."""
    while graph.nodes[entry[0]].function == NO_OP:
        entry = graph.nodes[entry[0]].inputs[0]
    return entry


def program_of(
    graph: KernelGraph,
    workspaces: Mapping[str, Workspace],
    tasks: int,
    in_place: Mapping[str, Pairs],
) -> tuple[Program, dict[Entry, int]]:
    """Return a graph's kernels as calls, and the number of the buffer that each tensor is.

    What the model returns is written where the caller wants it, and so lies outside.
    """
    returned = {root_of(graph, entry) for entry in graph.outputs}
    buffers: list[Buffer] = []
    number_of: dict[Entry, int] = {}
    calls = []
    for node in graph.kernels:
        writes = []
        for place, tensor in enumerate(node.outputs):
            entry = (node.index, place)
            number_of[entry] = len(buffers)
            writes.append(len(buffers))
            suffix = f":{place}" if place else ""
            buffers.append(Buffer(f"{node.name}{suffix}", tensor.bytes, entry in returned))
        roots = [root_of(graph, entry) for entry in node.inputs]
        reads = dict.fromkeys(number_of[root] for root in roots if root in number_of)
        needed = workspaces.get(node.function, Workspace()).with_tasks(tasks)
        pairs = _pairs(in_place.get(node.function, ()), roots, number_of, writes)
        calls.append(Call(node.name, tuple(reads), tuple(writes), needed, pairs))
    return Program(tuple(buffers), tuple(calls)), number_of


def _pairs(
    proved: Pairs, roots: list[Entry], number_of: Mapping[Entry, int], writes: list[int]
) -> Pairs:
    """Return which buffers a call may write over which, from what is proved of its arguments.

    An operand that the call is given twice is read through both arguments, and left alone.
    """
    times = Counter(roots)
    return tuple(
        (number_of[roots[operand]], writes[result - len(roots)])
        for operand, result in proved
        if operand < len(roots) <= result
        and roots[operand] in number_of
        and times[roots[operand]] == 1
    )


def tvm_activations(graph_json: str, params: Mapping[str, Any]) -> int:
    """Return what the graph's own storage plan, TVM's, takes for all that is no constant."""
    graph = json.loads(graph_json)
    tensors = [
        tensor for node in KernelGraph.from_json(graph_json).nodes for tensor in node.outputs
    ]
    storage = graph["attrs"]["storage_id"][1]
    constant = {
        storage[graph["node_row_ptr"][index]]
        for index, node in enumerate(graph["nodes"])
        if node["name"] in params
    }
    sizes: dict[int, int] = {}
    for number, tensor in zip(storage, tensors, strict=True):
        if number not in constant:
            sizes[number] = max(sizes.get(number, 0), _aligned(tensor))
    return sum(sizes.values())


def _aligned(tensor: Tensor) -> int:
    return -(-tensor.bytes // ALIGNMENT) * ALIGNMENT


def parse_size(text: str | int) -> int:
    """Return the bytes of a size such as ``"64MiB"``, ``"1.5 GB"``, or a number.

    Raises
    ------
    ShapeError
        It is no size.
    """
    match = _SIZE.fullmatch(str(text))
    if match is None or match["unit"] not in UNITS:
        raise ShapeError(
            "memory limit",
            expected="a size",
            found=repr(text),
            next_step="Write it like 64MiB, 1.5GB or 4096.",
        )
    return int(float(match["number"]) * UNITS[match["unit"]])


def check_limit(memory: ModelMemory, limit: str | int) -> None:
    """Raise ModelError where a model needs more than `limit`; it says how much, and where.

    What counts is :attr:`ModelMemory.total`, what a bundle takes.
    """
    allowed = parse_size(limit)
    if memory.total > allowed:
        arena = memory.plan.arena_bytes
        raise ModelError(
            "memory of the model",
            expected=f"at most {size_text(allowed)}",
            found=f"{size_text(memory.total)}: weights {size_text(memory.weights)}, arena"
            f" {size_text(arena)} with its peak at kernel {memory.plan.peak_call!r}, inputs and"
            f" outputs {size_text(memory.inputs + memory.outputs)}",
            next_step="Raise the limit, store weights in 16 bits (precision='float16'), or compile"
            " for smaller inputs.",
        )


def size_text(size: int) -> str:
    """Return a size for people: exact bytes under a KiB, three digits above."""
    for unit in ("GiB", "MiB", "KiB"):
        if size >= UNITS[unit]:
            return f"{size / UNITS[unit]:.4g} {unit} ({size} bytes)"
    return f"{size} bytes"
