"""An order of passes that can be taken apart: named phases, in a list that edits return anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_fusionx.errors import PhaseError


@dataclass(frozen=True)
class Phase:
    """One step of the order: passes that go together, under a name."""

    name: str
    """What the others say when they want to stand before or after it."""

    passes: tuple[Any, ...]
    """Passes of TVM, in order; none where the target needs none."""


@dataclass(frozen=True)
class Phases:
    """Phases in order. Each edit returns a new order; this one stays.

    Raises
    ------
    PhaseError
        Two phases have one name; an edit names a phase that is not there.
    """

    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        """Refuse names that say two things."""
        seen: set[str] = set()
        for name in self.names:
            if name in seen:
                raise PhaseError(
                    f"phase {name!r}",
                    expected="a name that no other phase has",
                    found="two phases of that name",
                    next_step="Name the added phase otherwise.",
                )
            seen.add(name)

    def __iter__(self) -> Iterator[Phase]:
        return iter(self.phases)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names, in order."""
        return tuple(phase.name for phase in self.phases)

    def phase(self, name: str) -> Phase:
        """Return the phase called `name`."""
        return self.phases[self._place(name)]

    def before(self, name: str, *added: Phase) -> Phases:
        """Return the order with `added` right before the phase `name`."""
        at = self._place(name)
        return Phases((*self.phases[:at], *added, *self.phases[at:]))

    def after(self, name: str, *added: Phase) -> Phases:
        """Return the order with `added` right after the phase `name`."""
        at = self._place(name) + 1
        return Phases((*self.phases[:at], *added, *self.phases[at:]))

    def without(self, *names: str) -> Phases:
        """Return the order without the phases that are named."""
        left_out = {self._place(name) for name in names}
        return Phases(tuple(each for at, each in enumerate(self.phases) if at not in left_out))

    def replaced(self, name: str, phase: Phase) -> Phases:
        """Return the order with `phase` in the place of the phase `name`."""
        at = self._place(name)
        return Phases((*self.phases[:at], phase, *self.phases[at + 1 :]))

    def moved(self, name: str, *, after: str) -> Phases:
        """Return the order with the phase `name` right after the phase `after`."""
        return self.without(name).after(after, self.phase(name))

    def sequential(self, name: str) -> tvm.transform.Sequential:
        """Return all passes, in order, as one pass called `name`."""
        return tvm.transform.Sequential(
            [each for phase in self.phases for each in phase.passes], name=name
        )

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise PhaseError(
                f"phase {name!r}",
                expected=f"one of {', '.join(self.names)}",
                found="no phase of that name",
                next_step="Correct the name; fx.phases(target) has them in order.",
            )
        return self.names.index(name)


def passes_of(given: Any | Iterable[Any]) -> tuple[Any, ...]:
    """Return what is one pass, or several, as several."""
    several = tuple(given) if isinstance(given, Iterable) else (given,)
    for each in several:
        if not isinstance(each, tvm.ir.transform.Pass):
            raise PhaseError(
                "a pass between phases",
                expected="a pass of TVM, or several",
                found=type(each).__name__,
                next_step="Make a pass of it, as with @tvm.transform.module_pass.",
            )
    return several
