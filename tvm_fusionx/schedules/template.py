"""What a template is: a named way to schedule one kind of block, with named knobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
class Match(ABC):
    """A block that a template serves, as the template understands it.

    It is made once; what it leaves open and the kernel both follow from it.
    """

    info: BlockInfo
    """The block."""

    @abstractmethod
    def knobs(self) -> Knobs:
        """Return what is left open: each knob with the value used without tuning."""

    @abstractmethod
    def emit(self, values: KnobValues) -> Any:
        """Return the scheduled ``tir.PrimFunc`` for a value of each knob.

        Raises ``tir.ScheduleError`` or :class:`UnschedulableError` to hand over to the next
        template.
        """


@dataclass(frozen=True)
class Template:
    """A way to schedule one kind of block."""

    name: str
    """Name in reports and records."""

    match: Callable[[BlockInfo], Match | str]
    """Return the block as the template understands it, or why the template does not serve it."""


@dataclass(frozen=True)
class Refusal:
    """Why one template did not schedule a block."""

    template: str
    reason: str


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
    """Why a template that serves the block, or a value of a knob, was not used; None when all were.
    """

    refusals: tuple[Refusal, ...] = ()
    """Why each template that was tried before did not serve the block, in the order of trying."""
