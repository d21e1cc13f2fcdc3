"""Our pool in the place of TVM's, in this process: put there, changed, and taken back.

Nothing here imports TVM's compiler; what it needs is the path of TVM's loaded library.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from tvm_fusionx.errors import FusionXError, MissingDependencyError
from tvm_fusionx.runtime.pool_library import pool_library

logger = logging.getLogger(__name__)

# FUSIONX_MOST_THREADS of pool.h.
MOST_THREADS = 64

# Of pool.h and tvm_pool.h: what a function returns, in words.
PROBLEMS = {
    -101: "a number of threads or of a core that is out of range",
    -102: "a call from within a kernel that runs on the pool",
    -103: "fewer threads than were asked for: the system gives no more",
    -201: "a TVM whose runtime does not offer its launcher",
    -202: "no loaded library of that path that TVM compiled",
}
NO_THREAD = -103


class InstalledPool:
    """The pool's library, loaded; one of it serves the process.

    Attributes
    ----------
    path
        Its file.
    is_installed
        Whether kernels of the whole process run on it.
    """

    def __init__(self, path: Path, runtime: Path) -> None:
        self.path = path
        self.is_installed = False
        self._runtime = str(runtime).encode()
        self._functions = ctypes.CDLL(str(path))
        self._functions.fusionx_pool_launches.restype = ctypes.c_uint64
        self._functions.fusionx_tvm_install.argtypes = [ctypes.c_char_p]
        self._functions.fusionx_tvm_install_in.argtypes = [
            *(ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int)
        ]
        self._functions.fusionx_pool_configure.argtypes = [
            *(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_int)
        ]

    @property
    def threads(self) -> int:
        """Threads of the pool, the calling one among them; 0 before it is configured."""
        return int(self._functions.fusionx_pool_threads())

    @property
    def workers(self) -> int:
        """Threads that the pool has started in this process."""
        return int(self._functions.fusionx_pool_workers())

    @property
    def launches(self) -> int:
        """Kernels that it has run on several threads in this process."""
        return int(self._functions.fusionx_pool_launches())

    def configure(self, threads: int, cores: Sequence[int], *, is_pinned: bool = False) -> int:
        """Start workers for `threads` threads in all; return how many there are.

        Parameters
        ----------
        threads
            From 1 to :data:`MOST_THREADS`.
        cores
            Where workers may run; with `is_pinned` worker n stays on the n-th, and the first is
            left to the calling thread.

        Raises
        ------
        MissingDependencyError
            A core has no such number, or a kernel calls this.
        """
        listed = (ctypes.c_int * len(cores))(*cores)
        code = self._functions.fusionx_pool_configure(threads, listed, len(cores), int(is_pinned))
        if code == NO_THREAD:
            logger.warning("the system gives %d of %d threads", self.threads, threads)
        else:
            _check(code, "fusionx's thread pool")
        return self.threads

    def install(self) -> None:
        """Let kernels of this process run on the pool, those to come too.

        Raises
        ------
        MissingDependencyError
            This TVM does not offer its launcher where it can be replaced.
        """
        _check(self._functions.fusionx_tvm_install(self._runtime), "fusionx's thread pool")
        self.is_installed = True

    def uninstall(self) -> None:
        """Give kernels TVM's pool back, and end the workers."""
        self.is_installed = False
        _check(self._functions.fusionx_tvm_uninstall(), "fusionx's thread pool")
        _check(self._functions.fusionx_pool_stop(), "fusionx's thread pool")

    def install_in(self, library: str | Path, is_ours: bool = True) -> None:
        """Let the kernels of one loaded library run on the pool, or on TVM's, whatever others do.

        Parameters
        ----------
        library
            The path that it was loaded from.

        Raises
        ------
        MissingDependencyError
            No library of this path is loaded, or TVM did not compile it.
        """
        code = self._functions.fusionx_tvm_install_in(
            self._runtime, str(library).encode(), int(is_ours)
        )
        _check(code, f"library {library}")

    @contextlib.contextmanager
    def switched(self, is_ours: bool) -> Iterator[None]:
        """Run kernels in this scope on ours, or on TVM's, where the pool is installed.

        A switch of what the installed launcher does: it costs a microsecond.
        """
        before = self._functions.fusionx_tvm_use(int(is_ours))
        try:
            yield
        finally:
            self._functions.fusionx_tvm_use(before)

    def set_spin(self, worker_microseconds: int, caller_microseconds: int) -> None:
        """Set how long idle workers, and a caller that waits, look for work before they sleep."""
        self._functions.fusionx_pool_set_spin(worker_microseconds, caller_microseconds)


_found: InstalledPool | None = None
_problem: str | None = None
_lock = threading.Lock()


def load_pool(runtime: Path) -> InstalledPool:
    """Return this process's pool, built where it must be; it is loaded once and stays.

    Parameters
    ----------
    runtime
        TVM's library that this process has loaded.

    Raises
    ------
    MissingDependencyError
        There is no library of the pool, and none can be built.
    OutputFileError
        The cache folder cannot be written.
    """
    global _found, _problem
    with _lock:
        if _found is None:
            try:
                _found = InstalledPool(pool_library(), runtime)
            except FusionXError as error:
                _problem = str(error)
                raise
        return _found


def found_pool() -> InstalledPool | None:
    """Return this process's pool where it was loaded."""
    return _found


def known_problem() -> str | None:
    """Return why the pool could not be loaded, where that was tried: it is tried once."""
    return _problem


def _check(code: int, thing: str) -> None:
    if code:
        raise MissingDependencyError(
            thing,
            expected="a pool that kernels can run on",
            found=PROBLEMS.get(code, f"code {code}"),
            next_step='Use TVM\'s with fx.threads(pool="tvm").',
        )
