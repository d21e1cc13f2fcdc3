"""Backends that other packages add: targets, templates, and an order of passes of their own.

A package names a function that registers its backend among the entry points of the group
``tvm_fusionx.backends``; nothing here is changed for it. `docs/how-to/add-a-backend.md` has one
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import tvm

from tvm_fusionx import schedules
from tvm_fusionx.build.phases import Phases
from tvm_fusionx.errors import BackendError
from tvm_fusionx.processors.targets import TargetLike, resolve_target
from tvm_fusionx.schedules import Family


def _as_they_are(phases: Phases, target: tvm.target.Target) -> Phases:
    return phases


@dataclass(frozen=True)
class Backend:
    """What a package adds for targets of its own."""

    name: str
    """In reports and errors."""

    serves: Callable[[tvm.target.Target], bool]
    """Tell whether a target is one of this backend: by its CPU, keys, or device."""

    family: Family
    """What such a target offers to a schedule, and the templates, in the order of trying."""

    tags: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Names of whole targets, as ``acme/board-2``, with what TVM's ``Target`` takes for each."""

    phases: Callable[[Phases, tvm.target.Target], Phases] = _as_they_are
    """Return the order of passes for a target of this backend, made from the usual one."""


_registered: dict[str, Backend] = {}


def register_backend(backend: Backend) -> None:
    """Add a backend: its targets are known, and served by its templates in its order.

    Raises
    ------
    BackendError
        It is no backend, or another one has its name.
    """
    if not isinstance(backend, Backend):
        raise BackendError(
            "backend",
            expected="a tvm_fusionx.build.backends.Backend",
            found=type(backend).__name__,
            next_step="Give one, with its name, what it serves, and its family of templates.",
        )
    known = _registered.setdefault(backend.name, backend)
    if known is not backend:
        raise BackendError(
            f"backend {backend.name!r}",
            expected="a name that no other backend has",
            found="two backends of that name",
            next_step="Rename one, or remove the package that has the other.",
        )
    schedules.ADDED_FAMILIES[backend.name] = (backend.serves, backend.family)
    for tag, configuration in backend.tags.items():
        tvm.target.tag.register_tag(tag, dict(configuration), override=True)


def remove_backend(name: str) -> None:
    """Forget the backend called `name`; its tags stay known to TVM."""
    _registered.pop(name, None)
    schedules.ADDED_FAMILIES.pop(name, None)


def backend_of(target: TargetLike) -> Backend | None:
    """Return the backend that serves `target`; None where it is this package itself."""
    resolved = resolve_target(target)
    return next((each for each in _registered.values() if each.serves(resolved)), None)
