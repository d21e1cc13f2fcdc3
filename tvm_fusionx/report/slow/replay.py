"""Build a block of a report here, with numbers of our own for its weights, and time it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx._tvm.interrupts import interruptible
from tvm_fusionx._tvm.type_errors import plain_message
from tvm_fusionx.build.fused_build import FusedBuild, kernel_notes
from tvm_fusionx.build.library import describe_library
from tvm_fusionx.ecg.graph import Graph
from tvm_fusionx.ecg.relay_types import relay_type
from tvm_fusionx.errors import FusionXError
from tvm_fusionx.inputs import inputs_of
from tvm_fusionx.lowering import lowering
from tvm_fusionx.measuring.machine_peak import MachinePeak
from tvm_fusionx.operators import INDEX_OPERANDS
from tvm_fusionx.processors.targets import TargetLike, resolve_target
from tvm_fusionx.report.profile.limits import limit_seconds
from tvm_fusionx.report.profile.profile import DEFAULT_REPEAT, profile
from tvm_fusionx.report.slow.fields import damaged
from tvm_fusionx.report.slow.read_block import LEAST, MOST, Operand, ReadBlock, read_block
from tvm_fusionx.report.slow.slow_report import SlowBlock
from tvm_fusionx.schedules.template import Refusal

# Operators whose indices are places along one axis of their first operand.
ALONG_AN_AXIS = ("gather", "take")


@dataclass(frozen=True)
class Replayed:
    """What a block of a report takes here.

    Attributes
    ----------
    seconds, limit_seconds
        Its time, and what it would take here at least; None where its work is unknown.
    template, refusals
        The template that serves it here, and why each that was tried before does not.
    """

    seconds: float
    limit_seconds: float | None
    template: str
    refusals: tuple[Refusal, ...]

    @property
    def part_of_limit(self) -> float | None:
        """Return the limit over the time; None where it is unknown."""
        if self.limit_seconds is None or not self.seconds:
            return None
        return self.limit_seconds / self.seconds


@interruptible()
def replay(
    slow: SlowBlock,
    target: TargetLike,
    *,
    where: str = "a block of a report",
    seed: int = 0,
    repeat: int = DEFAULT_REPEAT,
    peak: MachinePeak | Literal["measure"] = "measure",
) -> Replayed:
    """Build a slow block for a target of this machine, and time it.

    Weights and inputs are drawn from a seeded generator, without zeros; indices are drawn among
    those that are valid. What stands for withheld scalars is drawn too.

    Parameters
    ----------
    where
        What errors call the block.
    repeat
        Measurements; the median counts.
    peak
        What this machine does at most; measured in a second by default.

    Raises
    ------
    ReportFileError
        The block is damaged, or TVM cannot build it.
    TargetError
        TVM does not know the target.
    """
    resolved = resolve_target(target)
    build, arrays = build_block(slow, resolved, where, seed)
    described = describe_library(
        build.library,
        model=where,
        target=str(resolved),
        inputs=inputs_of(build.module),
        kernels=kernel_notes(build),
    )
    given = {spec.name: arrays[int(spec.name.removeprefix(_NAME))] for spec in described.inputs}
    report = profile(described, given, repeat, peak=peak)
    # TVM's own schedules may make several kernels of a block.
    kernel = max(report.kernels, key=lambda each: each.seconds)
    limit = None
    if kernel.work is not None and report.peak is not None:
        limit = limit_seconds(kernel.work, report.peak)
    return Replayed(
        seconds=sum(each.seconds for each in report.kernels),
        limit_seconds=limit,
        template=kernel.template,
        refusals=build.log.entries[0].refusals if build.log.entries else (),
    )


_NAME = "operand"


def build_block(
    slow: SlowBlock, target: tvm.target.Target, where: str, seed: int = 0
) -> tuple[FusedBuild, list[np.ndarray]]:
    """Return a build of one block alone, and an array for each of its operands.

    Raises
    ------
    ReportFileError
        The block is damaged, or TVM cannot build it.
    """
    try:
        with lowering(target) as log:
            block = read_block(slow.block, where, seed)
            arrays = operand_arrays(block, seed)
            mod = _module(block, arrays)
            return FusedBuild(mod, relay.build(mod, target=target), log), arrays
    except FusionXError:
        raise
    except Exception as error:  # whatever TVM makes of a block of which only the types are known
        found = plain_message(error)[:200]
        raise damaged(where, "a block that TVM builds", found) from error


def operand_arrays(block: ReadBlock, seed: int = 0) -> list[np.ndarray]:
    """Return an array for each operand of a block: its own numbers where it has them, else drawn.

    Floating-point numbers lie between a half and one and a half; whole numbers are zero, which is
    a valid index of anything, but for indices of which the range is known.
    """
    generator = np.random.default_rng(seed)
    return [
        _array(operand, _rows(block.graph, place), generator)
        for place, operand in enumerate(block.operands)
    ]


def _array(operand: Operand, rows: int, generator: np.random.Generator) -> np.ndarray:
    shape, dtype = operand.type.shape, operand.type.dtype
    if operand.values is not None:
        return np.array(operand.values, dtype).reshape(shape)
    if operand.type.is_float:
        # Drawn narrow: as float64 a large operand would take twice its memory once more.
        drawn = generator.random(shape, np.float32)
        return (drawn * np.float32(MOST - LEAST) + np.float32(LEAST)).astype(dtype, copy=False)
    if dtype == "bool":
        return np.ones(shape, dtype)
    rows = min(rows, int(np.iinfo(dtype).max))
    return generator.integers(0, rows, shape, endpoint=False).astype(dtype)


def _rows(graph: Graph, place: int) -> int:
    """Return how many values an operand that is an index may have: one where nothing tells."""
    value = graph.inputs[place][0]
    known = []
    for user in graph.users(value.node):
        at = user.operands.index(value)
        if user.op not in ALONG_AN_AXIS or at not in INDEX_OPERANDS[user.op]:
            return 1
        data, axis = user.operands[0].type, user.attrs.get("axis")
        known.append(data.elements if axis is None else data.shape[axis])
    return min(known, default=1)


def _module(block: ReadBlock, arrays: Sequence[np.ndarray]) -> Any:
    """Return a module whose ``main`` calls the block, weights as constants as in a model."""
    variables, arguments = [], []
    for place, (operand, array) in enumerate(zip(block.operands, arrays, strict=True)):
        if operand.is_constant:
            arguments.append(relay.Constant(tvm.nd.array(array)))
        else:
            arguments.append(relay.Var(f"{_NAME}{place}", relay_type(operand.type)))
            variables.append(arguments[-1])
    call = relay.Call(block.function, arguments)
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(variables, call)))
