"""Kernels by a trace of TVM's own schedule primitives, in place of a template and its knobs.

Where TVM's MetaSchedule searched its own space, the schedule that it found is a trace: the
primitives in their order, and what was decided at each. Applied again it gives the same kernel.
"""

from __future__ import annotations

import json
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.errors import MALFORMED
from tvm_fusionx.schedules.template import Scheduled, UnschedulableError
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.nested_remainders import keep_nested_remainders

TRACED = "tvm"
"""What such kernels are reported as in the place of a template's name."""

# Every decision is in the trace: the seed decides nothing, and must not be the clock's.
SEED = 1


def trace_text(trace: Any) -> str:
    """Return a ``tvm.tir.schedule.Trace`` as one line of JSON, with the TVM that made it."""
    return json.dumps({TRACED: str(tvm.__version__), "trace": trace.as_json()})


def why_not_readable(text: str) -> str | None:
    """Return why this TVM cannot apply what :func:`trace_text` wrote, or None."""
    try:
        row = json.loads(text)
        version, (instructions, _) = str(row[TRACED]), row["trace"]
    except MALFORMED as error:
        return f"it is no trace ({type(error).__name__}: {error})"
    if version != tvm.__version__:
        return f"it is a trace of TVM {version}, and this is {tvm.__version__}"
    return None if isinstance(instructions, list) else "its trace is no list of instructions"


def apply_trace(func: tir.PrimFunc, text: str) -> Any:
    """Return the ``tir.Schedule`` of an unscheduled block that a trace leaves.

    Raises
    ------
    UnschedulableError
        The trace is of another TVM, damaged, or of another block.
    """
    problem = why_not_readable(text)
    if problem is not None:
        raise UnschedulableError(problem)
    sch = fresh_schedule(func, SEED)
    try:
        tir.schedule.Trace.apply_json_to_schedule(json.loads(text)["trace"], sch)
    except (tvm.TVMError, tir.ScheduleError, ValueError, TypeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UnschedulableError(
            f"the trace does not fit the block ({lines[-1] if lines else type(error).__name__})"
        ) from error
    return sch


def schedule_by_trace(func: tir.PrimFunc, text: str) -> Scheduled:
    """Schedule a block as a trace says.

    Parameters
    ----------
    func
        The block as unscheduled TensorIR, indices simplified.
    text
        What :func:`trace_text` wrote of a schedule of the same block.

    Raises
    ------
    UnschedulableError
        The trace is of another TVM, damaged, or of another block.
    """
    scheduled = keep_nested_remainders(apply_trace(func, text).mod["main"])
    return Scheduled(scheduled, TRACED)
