"""Schedule a block as its tuning record says, or as its template does by default."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import tvm

from tvm_fusionx.records import Record
from tvm_fusionx.schedules import Scheduled, UnschedulableError, schedule
from tvm_fusionx.schedules.traced import schedule_by_trace

logger = logging.getLogger(__name__)


def schedule_by_record(func: Any, target: tvm.target.Target, record: Record | None) -> Scheduled:
    """Schedule an unscheduled block.

    Parameters
    ----------
    func
        As unscheduled TensorIR, indices simplified.
    target
        What the kernel is compiled for.
    record
        What tuning found for it; None for the template's defaults. A trace that does not fit the
        block is said, and the defaults serve.
    """
    # Templates may have become better since; what it names is the default of its time.
    if record is None or record.keeps_default:
        return schedule(func, target)
    if not record.trace:
        return schedule(func, target, record.knobs, record.template)
    try:
        return schedule_by_trace(func, record.trace)
    except UnschedulableError as error:
        reason = f"its record: {error}"
        logger.warning("block %s: %s", record.name or record.hash, reason)
        scheduled = schedule(func, target)
        reasons = [reason, *filter(None, [scheduled.fallback_reason])]
        return replace(scheduled, fallback_reason="; ".join(reasons))
