"""The template of last resort: serves every block, and refuses only knobs of its own."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import tvm

from tvm_fusionx.schedules.parts.nest import schedule_alone
from tvm_fusionx.schedules.rows.knobs import RECOMPUTE_KNOB, chosen, knobs_of_elements
from tvm_fusionx.schedules.template import KnobValues, Template
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.inline import inline_spatial

logger = logging.getLogger(__name__)


def _why_not(info: BlockInfo) -> str | None:
    return None


def _apply(sch: Any, info: BlockInfo, values: KnobValues) -> None:
    info, choices = chosen(info, values)
    info = inline_spatial(sch, info, recompute=bool(values.get(RECOMPUTE_KNOB)))
    for name, stage in info.stages.items():
        with contextlib.suppress(tvm.TVMError):
            schedule_alone(sch, name, stage, info.cpu, choices.parallel_work)


DEFAULT = Template("default", _why_not, knobs_of_elements, _apply)
