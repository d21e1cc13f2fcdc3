"""What a template is: a named way to schedule one kind of block, with named knobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_fusionx.tir.block import BlockInfo


class UnschedulableError(ValueError):
    """A template met a block it cannot schedule after all; the next template is tried."""


@dataclass(frozen=True)
class Knob:
    """One choice a template leaves open."""

    default: int
    """The value used without tuning."""

    choices: tuple[int, ...]
    """Every value that is valid for this block."""


Knobs = dict[str, Knob]
KnobValues = Mapping[str, int]


@dataclass(frozen=True)
class Template:
    """A way to schedule one kind of block."""

    name: str
    """Name in reports and records."""

    why_not: Callable[[BlockInfo], str | None]
    """Return why the template does not serve a block, or None when it does."""

    knobs: Callable[[BlockInfo, Any], Knobs]
    """Return the knobs of the template for a block, on its ``Cpu`` or ``Gpu``."""

    apply: Callable[[Any, BlockInfo, KnobValues], Any]
    """Schedule a block: takes a ``tir.Schedule`` of it, the block, and a value for each knob.

    Returns None when the schedule holds the result, or a ``tir.PrimFunc`` that replaces it.
    Raises ``tir.ScheduleError`` or :class:`UnschedulableError` to hand over to the next template.
    """


@dataclass(frozen=True)
class Scheduled:
    """A scheduled kernel, and how it was made."""

    func: Any
    """The scheduled ``tir.PrimFunc``."""

    template: str
    """Name of the template used."""

    knobs: dict[str, int] = field(default_factory=dict)
    """The value of each knob."""

    fallback_reason: str | None = None
    """Why a more specialised template, or a value of a knob, was not used; None when all were."""
