"""A block of one build: what was decided of it, and its kernel when somebody asks."""

from __future__ import annotations

import functools
from typing import Any

import tvm

from tvm_fusionx.blocks.by_record import schedule_by_record
from tvm_fusionx.code_cache.decision import Decision
from tvm_fusionx.code_cache.keys import SYMBOL
from tvm_fusionx.records import Record
from tvm_fusionx.schedules import Refusal, Scheduled


class Block:
    """One for all equal blocks of a build.

    Parameters
    ----------
    source
        As unscheduled TensorIR, indices simplified.
    target
        What it is compiled for.
    record
        What tuning found for it, if anything.
    planned
        What planning made of it already, if it did.

    Attributes
    ----------
    key
        What its decision is kept under; empty where none is.
    decision
        What an earlier build decided of it; None where it is scheduled in this one.
    """

    def __init__(
        self,
        source: Any,
        target: tvm.target.Target,
        record: Record | None = None,
        planned: Scheduled | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.record = record
        self.key = ""
        self.decision: Decision | None = None
        if planned is not None:
            self.__dict__["scheduled"] = planned

    @functools.cached_property
    def scheduled(self) -> Scheduled:
        """Schedule the block, once."""
        return schedule_by_record(self.source, self.target, self.record)

    @property
    def func(self) -> Any:
        """Return the scheduled ``tir.PrimFunc``."""
        return self.scheduled.func

    def make(self) -> Any:
        """Return the same, for who asks later."""
        return self.func

    def decided(self, kernel: str) -> Decision | None:
        """Return what is kept of the block, whose code has the key `kernel`.

        None where a template failed: it may have lacked memory, or depth of calls, this once.
        """
        made = self.scheduled
        if made.fallback_reason is not None:
            return None
        refusals = tuple((each.template, each.reason) for each in made.refusals)
        knobs = {name: int(value) for name, value in made.knobs.items()}
        return Decision(made.template, knobs, refusals, kernel)

    def facts(self) -> dict[str, Any]:
        """Return what reports tell: template, knobs, why no better one serves, who refused."""
        told: Scheduled | Decision = self.decision or self.scheduled
        refusals, failed = told.refusals, None
        if isinstance(told, Decision):
            refusals = tuple(Refusal(template, reason) for template, reason in told.refusals)
        else:
            failed = told.fallback_reason
        return {
            "template": told.template,
            "knobs": dict(told.knobs),
            "fallback_reason": failed,
            "refusals": refusals,
        }


def text_of(source: Any) -> str:
    """Return an unscheduled block as TVM's JSON, whatever it is called."""
    named = source.attrs is not None and SYMBOL in source.attrs
    return str(tvm.ir.save_json(source.without_attr(SYMBOL) if named else source))


def record_text(record: Record | None) -> str:
    """Return what scheduling reads of a tuning record."""
    if record is None or record.keeps_default:
        return ""
    knobs = sorted((str(name), int(value)) for name, value in record.knobs.items())
    return repr((record.template, knobs, record.trace))
