"""Builds of TVM that would give our blocks to TVM's own schedules, stopped with a reason."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tvm
from tvm.relay.backend.vm import VMCompiler
from tvm.relay.build_module import BuildModule

from tvm_fusionx._tvm.cures import TIR_CONVERTER_NAME
from tvm_fusionx.errors import LoweringError

TIR_CONVERTER = "relay.backend.tir_converter"

# Attributes of a target that code depends on.
TELLING = ("mtriple", "mcpu", "mattr", "device")

_scopes = threading.local()
_guarding = threading.Lock()


@contextlib.contextmanager
def building_for(target: tvm.target.Target) -> Iterator[None]:
    """Tell, in this thread and scope, what our blocks are scheduled for."""
    scopes = _targets()
    scopes.append(target)
    try:
        yield
    finally:
        scopes.pop()


def guard_builds(count_blocks: Callable[[Any], int]) -> None:
    """Let TVM build a module with our blocks only where our schedules serve them; idempotent.

    TVM has one schedule for a kernel with one expensive operator, and meets our blocks with "Cannot
    apply TOPI schedule to a primitive function with two complicated ops", or with wrong layouts.
    What TVM calls on its way to those schedules sees operators and no blocks, so the entrances of
    its builds are wrapped: for the rest of the process, from the first blocks on. Modules without
    blocks pass as before.

    Parameters
    ----------
    count_blocks
        Returns how many blocks of ours a module has.
    """
    with _guarding:
        for compiler, entrance in ((BuildModule, "build"), (VMCompiler, "lower")):
            original = getattr(compiler, entrance)
            if not hasattr(original, "guards_blocks"):
                setattr(compiler, entrance, _guarded(original, count_blocks))


def _guarded(original: Callable[..., Any], count_blocks: Callable[[Any], int]) -> Any:
    @functools.wraps(original)
    def build(self: Any, mod: Any, target: Any = None, *rest: Any, **options: Any) -> Any:
        number = count_blocks(mod) if isinstance(mod, tvm.IRModule) else 0
        problem = _why_not_served(target) if number else None
        if problem is not None:
            found, next_step = problem
            raise LoweringError(
                f"a build of {number} block{'s' if number > 1 else ''} of FuseByMapping",
                expected="to be inside of `with fx.lowering(target):`, for the same target",
                found=found,
                next_step=next_step,
            )
        return original(self, mod, target, *rest, **options)

    build.guards_blocks = True  # type: ignore[attr-defined]
    return build


def _targets() -> list[tvm.target.Target]:
    if not hasattr(_scopes, "targets"):
        _scopes.targets = []
    targets: list[tvm.target.Target] = _scopes.targets
    return targets


def _why_not_served(target: Any) -> tuple[str, str] | None:
    """Return what is wrong with building for `target` here, and what to do; None if nothing is."""
    if not _targets():
        return (
            "no such scope in this thread",
            "Call relay.build inside of the scope, or fx.build, which opens it.",
        )
    config = tvm.transform.PassContext.current().config
    if str(config.get(TIR_CONVERTER, "")) != TIR_CONVERTER_NAME:
        return (
            "a PassContext opened inside of the scope, which hides it",
            "Open the PassContext outside of fx.lowering, which keeps its configuration.",
        )
    ours = _spelling(_targets()[-1])
    given = target if target is not None else tvm.target.Target.current()
    asked = [_spelling(each) for each in tvm.target.Target.canon_multi_target_and_host(given)]
    if ours in asked:
        return None
    return (
        f"fx.lowering({ours!r}) and a build for {', '.join(map(repr, asked))}",
        "Give both, and the passes, the same: target = fx.schedules.resolve_target(target).",
    )


def _spelling(target: tvm.target.Target) -> str:
    """Return the part of a target that code depends on, one spelling for equal ones."""
    words = [str(target.kind.name)]
    for name in TELLING:
        value = target.attrs.get(name, "")
        if isinstance(value, tvm.ir.Array):
            value = ",".join(sorted(map(str, value)))
        words += [f"-{name}={value}"] if value else []
    return " ".join(words)
