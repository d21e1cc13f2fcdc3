"""What is tuned: each distinct block of a model, with the choices that its template leaves open."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.build.fused_build import FusedBuild
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.errors import TargetError
from tvm_fusionx.schedules import Knob, describe_block, describe_processor, template_named
from tvm_fusionx.schedules.block_work import Work, work_of
from tvm_fusionx.schedules.template import Knobs, UnschedulableError

# Templates that are none: TVM's own schedule, or no schedule at all.
WITHOUT_KNOBS = ("topi", "unscheduled")

Choice = Mapping[str, Any]
"""A value for each knob; or, under :data:`TRACE` alone, the trace of a schedule of TVM's own."""

TRACE = "trace"


def choice_key(choice: Choice) -> tuple[tuple[str, Any], ...]:
    """Return a choice as something that can be compared and hashed."""
    return tuple(sorted(choice.items()))


@dataclass(frozen=True)
class Space:
    """The product of all knobs' choices, numbered from 0."""

    knobs: Mapping[str, Knob]

    def __len__(self) -> int:
        return math.prod(len(knob.choices) for knob in self.knobs.values())

    @property
    def default(self) -> dict[str, int]:
        """Return the values used without tuning."""
        return {name: knob.default for name, knob in self.knobs.items()}

    def choice(self, index: int) -> dict[str, int]:
        """Return choice number `index`; the first knob runs fastest."""
        values = {}
        for name, knob in self.knobs.items():
            index, position = divmod(index, len(knob.choices))
            values[name] = knob.choices[position]
        return values

    def index(self, choice: Choice) -> int | None:
        """Return the number of `choice`, or None where a value is not among the knob's choices."""
        index, scale = 0, 1
        for name, knob in self.knobs.items():
            if choice.get(name) not in knob.choices:
                return None
            index += scale * knob.choices.index(choice[name])
            scale *= len(knob.choices)
        return index


@dataclass(frozen=True, eq=False)
class Task:
    """One distinct block of a model."""

    key: str
    """Structural hash of the unscheduled block."""

    func: Any
    """The unscheduled PrimFunc."""

    template: str
    """Name of the template that serves it."""

    space: Space
    """What the template leaves open."""

    names: tuple[str, ...]
    """Names of the blocks of the model that are this one."""

    work: Work
    """What one run takes at least, functions as their polynomials."""

    shapes: tuple[str, ...]
    """Parameters as ``float32[1, 64]``, outputs last."""

    takes_traces: bool = False
    """Whether TVM's own space is searched, with or without that of the knobs."""

    @property
    def flops(self) -> float:
        """Return the floating-point operations of one run."""
        return float(self.work.flops)

    @property
    def count(self) -> int:
        """Return how many blocks of the model are this one."""
        return len(self.names)

    @property
    def is_tunable(self) -> bool:
        """Tell whether there is anything to choose."""
        return self.takes_traces or len(self.space) > 1

    @property
    def symbol(self) -> str:
        """Return the name of its kernel when compiled alone."""
        return f"fusionx_{self.key.replace('-', 'm')}"

    @property
    def outputs(self) -> tuple[int, ...]:
        """Return the positions of the parameters that it writes."""
        return written_parameters(self.func)


def collect_tasks(build: FusedBuild, target: tvm.target.Target) -> list[Task]:
    """Return the distinct blocks of a fused build, in the order of the model.

    Blocks that TVM's own schedules serve are left out: they have no block to schedule.
    """
    names: dict[str, list[str]] = {}
    for node in KernelGraph.from_json(build.library.get_graph_json()).kernels:
        names.setdefault(node.function, []).append(node.name)
    entries: dict[str, Any] = {}
    blocks: dict[str, list[str]] = {}
    for entry in build.log.entries:
        if entry.key is not None and entry.name in names:
            entries.setdefault(entry.key, entry)
            blocks.setdefault(entry.key, []).extend(names[entry.name])
    return [
        make_task(entry.source, entry.template, target, dict.fromkeys(blocks[key]))
        for key, entry in entries.items()
    ]


def make_task(
    func: Any, template: str, target: tvm.target.Target, names: Iterable[str] = ()
) -> Task:
    """Return the task of one unscheduled block that `template` serves."""
    buffers = [func.buffer_map[param] for param in func.params]
    shapes = [[int(extent) for extent in buffer.shape] for buffer in buffers]
    return Task(
        key=str(tvm.ir.structural_hash(func)),
        func=func,
        template=template,
        space=Space(knobs_of(func, template, target)),
        names=tuple(names),
        work=work_of(func),
        shapes=tuple(
            f"{buffer.dtype}{shape}" for shape, buffer in zip(shapes, buffers, strict=True)
        ),
    )


def knobs_of(func: Any, template: str, target: tvm.target.Target) -> Knobs:
    """Return the knobs of a template for an unscheduled block; none for TVM's own schedules.

    Raises
    ------
    UnschedulableError
        The template does not serve the block.
    """
    if template in WITHOUT_KNOBS:
        return {}
    match = template_named(template).match(describe_block(func, describe_processor(target)))
    if isinstance(match, str):
        raise UnschedulableError(f"{template} does not serve the block: {match}")
    return dict(match.knobs())


def written_parameters(func: Any) -> tuple[int, ...]:
    """Return the positions of the parameters that `func` stores to."""
    written: set[Any] = set()

    def visit(node: Any) -> None:
        if isinstance(node, tir.Block):
            written.update(region.buffer.data for region in node.writes)

    tir.stmt_functor.post_order_visit(func.body, visit)
    return tuple(
        position
        for position, param in enumerate(func.params)
        if func.buffer_map[param].data in written
    )


def select_tasks(tasks: Iterable[Task], only: Iterable[str]) -> list[Task]:
    """Return the tasks that `only` names: by block, part of a block's name, or hash; all if none.

    Raises
    ------
    TargetError
        A name fits no block.
    """
    chosen = list(tasks)
    wanted = list(only)
    if not wanted:
        return chosen
    for name in wanted:
        if not any(_fits(task, name) for task in chosen):
            blocks = [block for task in chosen for block in task.names]
            raise TargetError(
                f"block {name!r}",
                expected="the name of a block of the model, or a part of it",
                found=f"none of {len(blocks)} blocks, such as {', '.join(blocks[:3])}",
                next_step="`fusionx explain MODEL` lists the blocks.",
            )
    return [task for task in chosen if any(_fits(task, name) for name in wanted)]


def _fits(task: Task, name: str) -> bool:
    return name == task.key or any(name in block for block in task.names)
