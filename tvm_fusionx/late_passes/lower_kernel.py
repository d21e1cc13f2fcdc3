"""Lower scheduled blocks to what a code generator takes, each once, several at the same time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import tvm

Progress = Callable[[int, int], None]
Item = TypeVar("Item")
Result = TypeVar("Result")


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
    """Lower blocks, as many at a time as there are cores.

    Parameters
    ----------
    blocks
        Symbol and scheduled block of each.
    target
        A CPU.
    on_progress
        Told how many are lowered of how many.
    """
    return side_by_side(lambda block: lower_kernel(block[1], target, block[0]), blocks, on_progress)


def side_by_side(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    on_progress: Progress,
) -> list[Result]:
    """Work on items, as many at a time as there are cores: most of the work leaves Python's lock.

    Parameters
    ----------
    work
        Runs in any thread, under the configuration of the current ``PassContext``.
    items
        What it is given.
    on_progress
        Told how many are done of how many.
    """
    context = tvm.transform.PassContext.current()
    # What watches passes watches one thread.
    workers = 1 if list(context.instruments) else min(_cores(), len(items))

    def told(result: Result, done: int) -> Result:
        on_progress(done, len(items))
        return result

    if workers < 2:
        return [told(work(item), done) for done, item in enumerate(items, 1)]

    def work_like_here(item: Item) -> Result:
        with like(context):
            return work(item)

    pool = ThreadPoolExecutor(workers, thread_name_prefix="fusionx-lower")
    with contextlib.ExitStack() as scope:
        scope.callback(pool.shutdown, cancel_futures=True)
        # Unrolled kernels take longest, and unscheduled ones have no size: in the order they came.
        waiting = [pool.submit(work_like_here, item) for item in items]
        return [told(future.result(), done) for done, future in enumerate(waiting, 1)]


def like(context: tvm.transform.PassContext) -> tvm.transform.PassContext:
    """Return an equal context: passes keep their diagnostics in it, which no two threads may."""
    return tvm.transform.PassContext(
        opt_level=context.opt_level,
        required_pass=context.required_pass,
        disabled_pass=context.disabled_pass,
        config=dict(context.config),
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
