"""How many threads kernels run on, and whose: our pool's, or TVM's.

On x86 TVM takes half of the machine's logical cores, guessing at hyper-threads, and ignores the
cores that the process is restricted to. Here it gets the cores that the process may use. And it
waits after each kernel for all of its threads: ours waits for none that has not begun.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm._ffi import base

from tvm_fusionx.errors import FusionXError
from tvm_fusionx.runtime.installed_pool import (
    MOST_THREADS,
    InstalledPool,
    found_pool,
    known_problem,
    load_pool,
)
from tvm_fusionx.runtime.pool_library import pool_library, why_no_pool

logger = logging.getLogger(__name__)

# kSpecifyThreadShareAllCore of TVM's ThreadGroup::AffinityMode: every worker may run on every
# listed core. One core a worker stalls whenever another program holds that core.
SHARE_ALL_CORES = -3
# kSpecifyOneCorePerThread.
ONE_CORE_EACH = -2

OURS = "fusionx"
TVMS = "tvm"
POOLS = (OURS, TVMS)


def usable_cores() -> list[int]:
    """Return the numbers of the cores that this process may run on, in ascending order."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


# Whether `threads` was called: TVM itself has no way to ask for that which changes nothing.
_is_set = False
# The pool that :func:`threads` was last asked for by name.
_asked: str | None = None


def threads_in_use() -> int:
    """Return the threads that kernels run on; :func:`threads` sets them where nobody did.

    Asking TVM alone makes its pool where there is none yet: of half the cores, never to grow, and
    with the calling thread bound to one of them.
    """
    return _count() if _is_set else threads()


def expected_threads() -> int:
    """Return what :func:`threads_in_use` would, and set nothing."""
    return _count() if _is_set else len(usable_cores())


def pool_in_use() -> str:
    """Return whose pool kernels of this process run on: :data:`OURS` or :data:`TVMS`."""
    return OURS if _installed() is not None else TVMS


def _installed() -> InstalledPool | None:
    pool = found_pool()
    return pool if pool is not None and pool.is_installed else None


def _count() -> int:
    pool = _installed()
    return pool.threads if pool is not None else int(tvm.runtime.num_threads())


def pool_for_servers() -> Path | None:
    """Return our pool's library for a process that serves this one; None where TVM's was chosen."""
    if _asked == TVMS or why_no_pool() is not None:
        return None
    return pool_library()


def tvm_library() -> Path:
    """Return the library of TVM that this process has loaded."""
    return Path(base._LIB._name)


def threads(
    n: int | None = None, *, pool: str | None = None, cores: Sequence[int] | None = None
) -> int:
    """Set how many threads kernels run on, where these may run, and whose pool it is.

    It holds for the process: graph executors, virtual machines, libraries loaded before and after.
    Kernels compiled in memory that ran before the first call stay on TVM's pool.

    Parameters
    ----------
    n
        Threads to use, the calling one among them; by default one for each of `cores`.
    pool
        ``"fusionx"``: a caller computes what other threads have not begun, and waits for those
        that have; callers at once share one pool. ``"tvm"``: TVM's own, of each caller. By default
        the first where its library is there or can be built, and `n` is at most 64.
    cores
        Numbers of cores to pin the workers to, one each: the first is left to the calling thread,
        which stays where it is. By default workers run on all cores that this process may use.

    Returns
    -------
    int
        The threads in use from now on. Less than `n` only when the system gives no more; or, on
        TVM's pool, when that was created before, with fewer: it can shrink and grow again, but
        never beyond its first size.

    Raises
    ------
    ValueError
        `n` is less than 1 or `pool` has no such name, or `cores` are not this process's.
    MissingDependencyError
        Our pool is asked for by name, and cannot be had.
    """
    global _is_set, _asked
    usable = usable_cores()
    _check(n, pool, cores, usable)
    chosen = list(cores) if cores is not None else usable
    count = len(chosen) if n is None else n
    _configure_tvm(count, chosen, is_pinned=cores is not None)
    _is_set = True
    ours = _wanted_pool(pool, count)
    _asked = pool
    if ours is not None:
        ours.configure(count, chosen, is_pinned=cores is not None)
        ours.install()
        return ours.threads
    before = _installed()
    if before is not None:
        before.uninstall()
    in_use = int(tvm.runtime.num_threads())
    if in_use != count:
        logger.warning(
            "TVM's thread pool was created with %d threads before fx.threads(%d) was called; "
            "call it before the first kernel runs, or set TVM_NUM_THREADS.",
            in_use,
            count,
        )
    return in_use


@contextlib.contextmanager
def on_pool(name: str) -> Iterator[None]:
    """Run kernels in this scope on the pool of that name, if ours is installed; else on TVM's."""
    pool = _installed()
    with pool.switched(name == OURS) if pool is not None else contextlib.nullcontext():
        yield


def use_pool_in(library: str | Path, pool: str = OURS) -> None:
    """Run the kernels of one loaded library on the pool of that name, whatever others do.

    Parameters
    ----------
    library
        The path that TVM loaded it from.

    Raises
    ------
    ValueError
        `pool` has no such name.
    MissingDependencyError
        There is no library of our pool, or none of that path is loaded.
    """
    _check(None, pool, None, [])
    load_pool(tvm_library()).install_in(library, pool == OURS)


def _check(
    n: int | None, pool: str | None, cores: Sequence[int] | None, usable: Sequence[int]
) -> None:
    if n is not None and n < 1:
        raise ValueError(
            f"threads: expected a number of at least 1; found {n}. Leave it out for all cores."
        )
    if pool not in (None, *POOLS):
        raise ValueError(
            f"pool: expected one of {', '.join(POOLS)}; found {pool!r}. Leave it out for the first."
        )
    if pool == OURS and n is not None and n > MOST_THREADS:
        raise ValueError(
            f"threads: expected at most {MOST_THREADS}; found {n}. Use TVM's with pool='tvm'."
        )
    if cores is not None and (not cores or set(cores) - set(usable)):
        raise ValueError(
            f"cores: expected some of {', '.join(map(str, usable))}, which this process may use; "
            f"found {list(cores)}. Leave them out for all."
        )


def _wanted_pool(pool: str | None, count: int) -> InstalledPool | None:
    """Return our pool, where it is asked for or nothing is and it can be had."""
    if pool == TVMS or (pool is None and (count > MOST_THREADS or known_problem() is not None)):
        return None
    try:
        return load_pool(tvm_library())
    except FusionXError as error:
        if pool is not None:
            raise
        logger.info("kernels run on TVM's pool: %s", error)
        return None


def _configure_tvm(count: int, cores: Sequence[int], *, is_pinned: bool) -> None:
    # The pool is made as large as the core list, so all cores are listed even for a smaller number:
    # this number can then be raised again, and the calling thread keeps its affinity.
    most = max(count, len(cores))
    listed = [str(core) for core in itertools.islice(itertools.cycle(cores), most)]
    before: Any = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    configure = tvm.get_global_func("runtime.config_threadpool")
    configure(ONE_CORE_EACH if is_pinned else SHARE_ALL_CORES, count, listed)
    if before is not None:
        # TVM gives its caller the listed cores.
        os.sched_setaffinity(0, before)
