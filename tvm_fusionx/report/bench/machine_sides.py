"""The sides of a benchmark that TVM's virtual machine runs: ours, our control, TVM's default."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.build.vm_program import VmProgram, build_for_machine
from tvm_fusionx.inputs import InputSpec
from tvm_fusionx.records import Record
from tvm_fusionx.report.bench.bench_result import OURS
from tvm_fusionx.report.bench.bench_sides import TVM, UNFUSED, TunedBuild
from tvm_fusionx.report.bench.plain_machine import build_plain_machine
from tvm_fusionx.report.bench.timing import describe_failure
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.report.profile.machine_profile import profile_machine

# TVM's name for what computes the shape of another kernel's result.
SHAPE_FUNCTION = "shape_func"

_LAUNCH = re.compile(r"# invoke_packed PackedFunc\[(\d+)\]")


@dataclass
class MachineSides:
    """What was built of one model; as :class:`~tvm_fusionx.report.bench.bench_sides.BuiltSides`.

    Attributes
    ----------
    ours
        Our program.
    libraries
        Programs by side.
    prepare_s, errors, tuning
        As there.
    """

    ours: VmProgram
    libraries: dict[str, VmProgram]
    prepare_s: dict[str, float]
    errors: dict[str, str] = field(default_factory=dict)
    tuning: dict[str, dict[str, Any]] = field(default_factory=dict)

    def description(self) -> dict[str, Any]:
        """Return the fields of a result that the programs alone tell.

        What lies between kernels is known only when they run, and nothing plans it.
        """
        sides = (OURS, TVM, UNFUSED)
        return {
            "kernels": {
                side: count_launches(self.libraries[side]) if side in self.libraries else None
                for side in sides
            },
            "intermediate_bytes": dict.fromkeys(sides),
            "weight_bytes": _weight_bytes(self.ours),
            "build_s": self.prepare_s[OURS],
            "tuning": self.tuning,
            "planned_bytes": {},
        }

    def block_times(
        self, model: str, specs: tuple[InputSpec, ...], arrays: Mapping[str, np.ndarray]
    ) -> list[dict[str, Any]]:
        """Return a row for each kernel of ours: template, time, bytes and work."""
        return profile_machine(self.ours, arrays, peak=None).to_blocks()


def build_machine_sides(
    mod: tvm.IRModule,
    target: tvm.target.Target,
    params: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    vs: Collection[str],
    records: str | Path | Mapping[str, Record] | None = None,
    *,
    tuned: Mapping[str, TunedBuild] | None = None,
    conversions: Conversions | None = None,
    alone: Callable[[], AbstractContextManager[None]] = nullcontext,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> MachineSides:
    """Build ours, and what `vs` names of TVM's default and our unfused control.

    Parameters
    ----------
    mod, target, params, arrays, vs, records, tuned, conversions, alone, on_stage
        As for :func:`tvm_fusionx.report.bench.bench_sides.build_sides`; what tunes is for the graph
        executor, and has a message here.
    """

    def telling(side: str) -> Callable[[str], None]:
        return lambda stage: on_stage(f"building {side}: {stage}")

    def ours(side: str, fuse: bool) -> VmProgram:
        return build_for_machine(
            mod, target, params, records, on_stage=telling(side), fuse=fuse, model_name=side
        )

    clock = (conversions or Conversions()).clock
    on_stage(f"building {OURS}")
    started = clock()
    program = ours(OURS, True)
    sides = MachineSides(program, {OURS: program}, {OURS: clock() - started})
    builds: dict[str, Callable[[], VmProgram]] = {
        TVM: lambda: build_plain_machine(mod, target, params),
        UNFUSED: lambda: ours(UNFUSED, False),
    }
    for side, build in builds.items():
        if side not in vs:
            continue
        on_stage(f"building {side}")
        started = clock()
        try:
            sides.libraries[side] = build()
        except Exception as error:  # TVM's default does fail on valid models
            sides.errors[side] = describe_failure(error)
            continue
        sides.prepare_s[side] = clock() - started
    for side in tuned or {}:
        sides.errors[side] = "not tuned: TVM's virtual machine runs the model"
    return sides


def count_launches(program: VmProgram) -> int:
    """Return how many kernels the bytecode launches; those that only compute shapes do not count.

    A loop's body counts once, and both branches do.
    """
    executable = program.executable()
    names = executable.primitive_ops
    launched = map(int, _LAUNCH.findall(executable.bytecode))
    return sum(SHAPE_FUNCTION not in names[place] for place in launched)


def _weight_bytes(program: VmProgram) -> int:
    if program.build is None:
        return 0
    constants: dict[Any, int] = {}

    def visit(expr: Any) -> None:
        if isinstance(expr, relay.Constant):
            data = expr.data
            bits = tvm.DataType(data.dtype).bits
            elements = int(np.prod(data.shape, dtype=np.int64))
            constants[expr] = elements * max(1, bits // 8)

    for func in program.build.module.functions.values():
        if isinstance(func, relay.Function):
            relay.analysis.post_order_visit(func, visit)
    return sum(constants.values())
