"""The template of last resort: serves every block, and refuses only knobs of its own."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import tvm

from tvm_fusionx.schedules.parts.nest import schedule_alone
from tvm_fusionx.schedules.rows.knobs import RECOMPUTE_KNOB, chosen, knobs_of_elements
from tvm_fusionx.schedules.template import Knobs, KnobValues, Match, Template
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.inline import inline_spatial

logger = logging.getLogger(__name__)


class StagesAlone(Match):
    """Any block: each stage is a loop nest of its own."""

    def knobs(self) -> Knobs:
        """Return width of vectors, what is recomputed, what the cores share."""
        return knobs_of_elements(self.info)

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel; a stage that has no schedule of this kind stays as it is."""
        info, choices = chosen(self.info, values)
        sch = fresh_schedule(info.func)
        info = inline_spatial(sch, info, recompute=bool(values.get(RECOMPUTE_KNOB)))
        for name, stage in info.stages.items():
            with contextlib.suppress(tvm.TVMError):
                schedule_alone(sch, name, stage, info.cpu, choices.parallel_work)
        return sch.mod["main"]


DEFAULT = Template("default", StagesAlone)
