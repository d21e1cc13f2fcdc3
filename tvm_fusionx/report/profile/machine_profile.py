"""Where the time of a model goes that TVM's virtual machine runs: one row a kernel."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import tvm
from tvm.runtime import profiler_vm

from tvm_fusionx._tvm.interrupts import interruptible
from tvm_fusionx.build.kernels import KernelNote, Tensor
from tvm_fusionx.build.vm_program import MAIN, VmProgram
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.inputs import check_inputs
from tvm_fusionx.measuring.machine_peak import MachinePeak, measure_machine_peak
from tvm_fusionx.report.bench.timing import MILLISECONDS, check_repeat, threads_apart
from tvm_fusionx.report.profile.profile import (
    DEFAULT_REPEAT,
    MICROSECONDS,
    MIN_REPEAT_MS,
    WARM_UP_RUNS,
    KernelTime,
    ProfileReport,
)
from tvm_fusionx.schedules.lowering_log import TOPI_TEMPLATE
from tvm_fusionx.threads import threads_in_use

# Of TVM's names for what the machine does itself.
OWN_STEP = "VM::"

BETWEEN = "what the machine does between kernels: memory, shapes, branches"

_OPERAND = re.compile(r"(\w+)\[([\d, ]*)\]")


@interruptible()
def profile_machine(
    program: VmProgram,
    inputs: Mapping[str, np.ndarray],
    repeat: int = DEFAULT_REPEAT,
    peak: MachinePeak | Literal["measure"] | None = "measure",
    on_run: Callable[[], None] | None = None,
) -> ProfileReport:
    """Time the kernels of `program` within runs, since the data decides which of them run, on what.

    A kernel that a run launches several times, as in a loop, is one row with their sum.

    Parameters
    ----------
    program
        What ``fx.build`` or ``load_model`` returned.
    inputs
        One array for each input.
    repeat
        Runs that are timed kernel by kernel; the median counts.
    peak
        What kernels' speeds are parts of; by default it is measured in a second.
    on_run
        Called after each of these runs.

    Raises
    ------
    InputError
        An input does not fit the model, or `repeat` is less than 1.
    MissingDependencyError
        TVM was built without its profiler.
    """
    check_repeat(repeat)
    arrays = check_inputs(inputs, program.inputs)
    if not profiler_vm.enabled():
        raise MissingDependencyError(
            "a profile of TVM's virtual machine",
            expected="TVM with its profiler (USE_PROFILER)",
            found="TVM without it",
            next_step="Use --print-time, or TVM from the extra `tvm`.",
        )
    given = [tvm.nd.array(array) for array in arrays.values()]
    machine = profiler_vm.VirtualMachineProfiler(program.executable(), tvm.cpu(0))
    seconds: dict[str, list[float]] = defaultdict(list)
    launches: dict[str, int] = {}
    moved: dict[str, int] = {}
    with threads_apart(threads_in_use()):
        if peak == "measure":
            peak = measure_machine_peak()
        for _ in range(WARM_UP_RUNS):
            machine.invoke(MAIN, *given)
        for _ in range(repeat):
            taken: dict[str, float] = defaultdict(float)
            launches = defaultdict(int)
            moved = defaultdict(int)
            for call in machine.profile(*given, func_name=MAIN).calls:
                name = str(call["Name"])
                if name.startswith(OWN_STEP):
                    continue
                taken[name] += call["Duration (us)"].microseconds / MICROSECONDS
                launches[name] += 1
                moved[name] += _bytes_of(str(call["Argument Shapes"]))
            for name, each in taken.items():
                seconds[name].append(each)
            (on_run or _tell_nobody)()
        whole = _end_to_end(program.machine(), given, repeat)
    notes = {note.name: note for note in program.kernels}
    medians = {name: float(np.median(each)) for name, each in seconds.items()}
    total = sum(medians.values())
    # Open operators are kernels by TVM's own schedules, under other names than their notes have.
    template = TOPI_TEMPLATE if notes else ""
    rows = []
    for name, median in medians.items():
        note = notes.get(name, KernelNote(name, template=template))
        # Of a kernel in a loop the work of all launches is unknown: the data may decide that too.
        work = note.work if launches.get(name) == 1 else None
        rows.append(KernelTime.of(name, note, median, total, moved.get(name, 0), work, peak))
    return ProfileReport(tuple(rows), whole, peak, BETWEEN)


def _bytes_of(operands: str) -> int:
    """Return the bytes of what TVM's profiler shows as ``float32[4, 8], int64[]``."""
    return sum(
        Tensor(tuple(int(extent) for extent in extents.split(",") if extent), dtype).bytes
        for dtype, extents in _OPERAND.findall(operands)
    )


def _end_to_end(machine: Any, given: list[Any], repeat: int) -> float:
    """Return the median time of a whole run, measured for as long as one by a graph executor."""
    for _ in range(WARM_UP_RUNS):
        machine.invoke(MAIN, *given)
    taken: list[float] = []
    while len(taken) < repeat or sum(taken) < MIN_REPEAT_MS / MILLISECONDS:
        started = time.perf_counter()
        machine.invoke(MAIN, *given)
        taken.append(time.perf_counter() - started)
    return float(np.median(taken))


def _tell_nobody() -> None:
    pass
