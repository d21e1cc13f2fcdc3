"""How many threads TVM runs a kernel on.

On x86 TVM takes half of the machine's logical cores, guessing at hyper-threads, and ignores the
cores that the process is restricted to. Here it gets the cores that the process may use.
"""

from __future__ import annotations

import itertools
import logging
import os

import tvm

logger = logging.getLogger(__name__)

# kSpecifyThreadShareAllCore of TVM's ThreadGroup::AffinityMode: every worker may run on every
# listed core. One core a worker stalls whenever another program holds that core.
SHARE_ALL_CORES = -3


def usable_cores() -> list[int]:
    """Return the numbers of the cores that this process may run on, in ascending order."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


# Whether `threads` was called: TVM itself has no way to ask for that which changes nothing.
_is_set = False


def threads_in_use() -> int:
    """Return the threads that TVM computes with; :func:`threads` sets them where nobody did.

    Asking TVM alone makes its pool where there is none yet: of half the cores, never to grow, and
    with the calling thread bound to one of them.
    """
    return int(tvm.runtime.num_threads()) if _is_set else threads()


def expected_threads() -> int:
    """Return what :func:`threads_in_use` would, and set nothing."""
    return int(tvm.runtime.num_threads()) if _is_set else len(usable_cores())


def threads(n: int | None = None) -> int:
    """Set the number of threads of TVM's pool.

    Parameters
    ----------
    n
        Threads to use; by default one for each core that this process may use.

    Returns
    -------
    int
        The threads that TVM uses from now on. Less than `n` only when TVM's pool was created
        before, with fewer: it can shrink and grow again, but never beyond its first size.

    Raises
    ------
    ValueError
        `n` is less than 1.
    """
    global _is_set
    cores = usable_cores()
    count = len(cores) if n is None else n
    if count < 1:
        raise ValueError(
            f"threads: expected a number of at least 1; found {n}. Leave it out for all cores."
        )
    # The pool is made as large as the core list, so all cores are listed even for a smaller number:
    # this number can then be raised again, and the calling thread keeps its affinity.
    listed = list(itertools.islice(itertools.cycle(cores), max(count, len(cores))))
    configure = tvm.get_global_func("runtime.config_threadpool")
    configure(SHARE_ALL_CORES, count, [str(core) for core in listed])
    _is_set = True
    in_use = int(tvm.runtime.num_threads())
    if in_use != count:
        logger.warning(
            "TVM's thread pool was created with %d threads before fx.threads(%d) was called; "
            "call it before the first kernel runs, or set TVM_NUM_THREADS.",
            in_use,
            count,
        )
    return in_use
