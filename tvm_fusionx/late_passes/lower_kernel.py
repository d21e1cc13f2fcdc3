"""Lower scheduled blocks to what a code generator takes, each once, several at the same time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tvm

Progress = Callable[[int, int], None]


def lower_kernel(func: Any, target: tvm.target.Target, name: str) -> tvm.tir.PrimFunc:
    """Lower one block for a CPU with the passes, and under the context, of TVM's own build.

    Parameters
    ----------
    func
        A scheduled block.
    target
        A CPU.
    name
        The symbol of the kernel.

    Returns
    -------
    tvm.tir.PrimFunc
        A host function with the packed calling convention, as ``target.build.llvm`` takes it.
    """
    mod = tvm.lower(func, name=name)
    both = target if target.host is not None else target.with_host(target)
    for passes in ("driver.mixed_mod_passes", "driver.host_mod_passes"):
        mod = tvm.get_global_func(passes)(mod, both)(mod)
    (lowered,) = mod.functions.values()
    return lowered


def lower_kernels(
    blocks: Sequence[tuple[str, Any]], target: tvm.target.Target, on_progress: Progress
) -> list[tvm.tir.PrimFunc]:
    """Lower blocks, as many at a time as there are cores: most of the work leaves Python's lock.

    Parameters
    ----------
    blocks
        Symbol and scheduled block of each.
    target
        A CPU.
    on_progress
        Told how many are lowered of how many.
    """
    context = tvm.transform.PassContext.current()
    # What watches passes watches one thread.
    workers = 1 if list(context.instruments) else min(_cores(), len(blocks))
    if workers < 2:
        return [
            _told(lower_kernel(func, target, name), done, len(blocks), on_progress)
            for done, (name, func) in enumerate(blocks, 1)
        ]

    def lower(block: tuple[str, Any]) -> tvm.tir.PrimFunc:
        name, func = block
        with _like(context):
            return lower_kernel(func, target, name)

    pool = ThreadPoolExecutor(workers, thread_name_prefix="fusionx-lower")
    with contextlib.ExitStack() as scope:
        scope.callback(pool.shutdown, cancel_futures=True)
        # Unrolled kernels take longest, and unscheduled ones have no size: in the order they came.
        waiting = [pool.submit(lower, block) for block in blocks]
        return [
            _told(future.result(), done, len(blocks), on_progress)
            for done, future in enumerate(waiting, 1)
        ]


def _like(context: tvm.transform.PassContext) -> tvm.transform.PassContext:
    """Return an equal context: passes keep their diagnostics in it, which no two threads may."""
    return tvm.transform.PassContext(
        opt_level=context.opt_level,
        required_pass=context.required_pass,
        disabled_pass=context.disabled_pass,
        config=dict(context.config),
    )


def _told(lowered: Any, done: int, count: int, on_progress: Progress) -> Any:
    on_progress(done, count)
    return lowered


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
