"""Serve one RPC session to the process that started this one, then end.

Started by path with the interpreter, not imported: it needs TVM's runtime alone, which loads in a
fraction of the time of the compiler. Prints the port as its only line; the parent connects within
:data:`CONNECT_SECONDS`. TVM's own server does not survive a kernel that crashes, and its
next session waits for ever.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import platform
import runpy
import select
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

CONNECT_SECONDS = 30.0
LENGTH = struct.Struct("<i")
LONGEST_KEY = 4096
# What a shell reports for a command that `timeout` ended.
EXIT_TIMEOUT = 124
EXIT_LEFT_ALONE = 1
SECONDS_AFTER_HANG_UP = 2.0
MILLISECONDS = 1e3
OPENCL_FACTS = Path(__file__).with_name("opencl_facts.py")
# kSpecifyOneCorePerThread of TVM's ThreadGroup::AffinityMode.
ONE_CORE_EACH = -2
THERMAL_ZONES = Path("/sys/class/thermal")
MILLIDEGREES = 1000.0


def main() -> None:
    """Serve one session."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--key", required=True)
    parser.add_argument("--timeout", type=float, required=True)
    parser.add_argument("--library", action="append", default=[])
    # As `runtime.config_threadpool` takes them.
    parser.add_argument("--affinity", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--cores", required=True)
    # Our thread pool's library; TVM's pool without.
    parser.add_argument("--pool", default=None)
    options = parser.parse_args()
    # This folder comes first for a program started by path: its modules must hide no others.
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != OPENCL_FACTS.parent]
    listening = socket.create_server(("127.0.0.1", 0))
    with contextlib.redirect_stdout(sys.stderr):
        import tvm
        from tvm.rpc import base

        # Plug-ins refer to TVM's symbols.
        for library in options.library:
            ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
        configure = tvm.get_global_func("runtime.config_threadpool")
        configure(options.affinity, options.threads, options.cores.split(","))
        cores = sorted({int(core) for core in options.cores.split(",")})
        pool = Pool(tvm, options.pool)
        pool.configure(options.threads, cores)
        pool.follow()
        register(tvm)
        register_pinning(tvm, pool, configure, options.threads, cores)
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    listening.settimeout(CONNECT_SECONDS)
    connection, _ = listening.accept()
    listening.close()
    if not _shake_hands(connection, base, options.key):
        sys.exit("the client's key differs")
    number = connection.detach()
    threading.Thread(target=_watch, args=(tvm, number, options.timeout), daemon=True).start()
    tvm.get_global_func("rpc.ServerLoop")(number)


def _shake_hands(connection: socket.socket, base: Any, key: str) -> bool:
    connection.settimeout(CONNECT_SECONDS)
    stream = connection.makefile("rb", buffering=0)
    (magic,) = LENGTH.unpack(stream.read(LENGTH.size) or b"\0" * LENGTH.size)
    (length,) = LENGTH.unpack(stream.read(LENGTH.size) or b"\0" * LENGTH.size)
    sent = (stream.read(min(length, LONGEST_KEY)) or b"").decode(errors="replace")
    if magic != base.RPC_MAGIC or sent.split(" ")[0] != f"client:{key}":
        connection.sendall(LENGTH.pack(base.RPC_CODE_MISMATCH))
        return False
    answer = f"server:{key}".encode()
    connection.sendall(LENGTH.pack(base.RPC_CODE_SUCCESS) + LENGTH.pack(len(answer)) + answer)
    # TVM's loop wants a socket that blocks.
    connection.settimeout(None)
    return True


def _watch(tvm: Any, number: int, seconds: float) -> None:
    """End this process when its time is over or its client is gone, whatever a kernel is doing."""
    connection = select.poll()
    connection.register(number, select.POLLRDHUP)
    if connection.poll(seconds * MILLISECONDS):
        # In between kernels, the loop ends by itself.
        time.sleep(SECONDS_AFTER_HANG_UP)
        os._exit(EXIT_LEFT_ALONE)
    message = f"RPCSessionTimeoutError: the session of {seconds:g} s has expired"
    with contextlib.suppress(Exception):
        tvm.get_global_func("rpc.ReturnException")(number, message)
    os._exit(EXIT_TIMEOUT)


class Pool:
    """Our thread pool in the place of TVM's in this process, or nothing where there is none."""

    def __init__(self, tvm: Any, path: str | None) -> None:
        self._tvm = tvm
        self._functions = ctypes.CDLL(path) if path is not None else None
        if self._functions is not None:
            install = self._functions.fusionx_tvm_install
            install.argtypes = [ctypes.c_char_p]
            if install(tvm._ffi.base._LIB._name.encode()):
                # Kernels run all the same, on TVM's.
                sys.stderr.write("fusionx's thread pool does not fit this TVM\n")
                self._functions = None

    def configure(self, threads: int, cores: list[int], is_pinned: bool = False) -> None:
        """Use so many threads, on these cores; one each where they are pinned."""
        if self._functions is not None:
            listed = (ctypes.c_int * len(cores))(*cores)
            self._functions.fusionx_pool_configure(threads, listed, len(cores), int(is_pinned))

    def launches(self) -> int:
        """Return how many parallel kernels have run on it."""
        return self._functions.fusionx_pool_launches() if self._functions is not None else 0

    def follow(self) -> None:
        """Do as a client tells TVM's pool, and tell clients how many kernels ran."""
        self._tvm.register_func("fusionx.device.pool_launches", self.launches, override=True)
        if self._functions is None:
            return
        original = self._tvm.get_global_func("runtime.config_threadpool")

        @self._tvm.register_func("runtime.config_threadpool", override=True)
        def config_threadpool(mode: int, threads: int, *cores: Any) -> None:
            original(mode, threads, *cores)
            # TVM has given its caller, this thread, the cores that were meant.
            usable = sorted(os.sched_getaffinity(0))
            self.configure(self._tvm.runtime.num_threads(), usable)


def register_pinning(tvm: Any, pool: Pool, configure: Any, threads: int, cores: list[int]) -> None:
    """Register what a client that measures asks for: each thread on a core of its own.

    Left to itself Linux at times keeps a caller and its spinning worker on one core and another
    core idle, for seconds: a kernel then takes twice as long.
    """

    @tvm.register_func("fusionx.device.threads_apart", override=True)
    def threads_apart() -> bool:
        if len(cores) < threads or not hasattr(os, "sched_setaffinity"):
            return False
        configure(ONE_CORE_EACH, threads, [str(core) for core in cores])
        pool.configure(threads, cores, is_pinned=True)
        # The pool gives its caller every core; this is the calling thread.
        os.sched_setaffinity(0, {cores[0]})
        return True


def register(tvm: Any) -> None:
    """Register what a client asks of a server; files are those of the working folder."""
    folder = Path.cwd()

    @tvm.register_func("tvm.rpc.server.workpath", override=True)
    def workpath(name: str) -> str:
        return str(folder / Path(name).name)

    problems: list[str] = []

    @tvm.register_func("tvm.rpc.server.load_module", override=True)
    def load_module(name: str) -> Any:
        try:
            return tvm.runtime.load_module(workpath(name))
        except Exception as error:
            problems.append(str(error))
            raise

    # What a Python function raises reaches the client without its message.
    @tvm.register_func("fusionx.device.last_problem", override=True)
    def last_problem() -> str:
        return problems[-1] if problems else ""

    @tvm.register_func("fusionx.device.facts", override=True)
    def facts() -> str:
        return json.dumps(
            {
                "system": platform.system(),
                "arch": platform.machine(),
                "cpu": cpu_name(),
                "cores": os.cpu_count() or 1,
                "runtime": tvm.__version__,
            }
        )

    @tvm.register_func("fusionx.device.opencl", override=True)
    def opencl() -> str:
        return json.dumps(runpy.run_path(str(OPENCL_FACTS))["opencl_facts"]())

    @tvm.register_func("fusionx.device.temperature", override=True)
    def hottest() -> float:
        return temperature()


def cpu_name() -> str:
    """Return the processor's name as the system tells it; its architecture where it does not."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def temperature() -> float:
    """Return degrees Celsius of the hottest zone of the processor; NaN where none is told."""
    found = []
    for zone in THERMAL_ZONES.glob("thermal_zone*"):
        with contextlib.suppress(OSError, ValueError):
            kind = (zone / "type").read_text().strip().lower()
            if any(word in kind for word in ("cpu", "soc", "pkg", "x86", "tsens")):
                found.append(int((zone / "temp").read_text()) / MILLIDEGREES)
    return max(found, default=float("nan"))


if __name__ == "__main__":
    main()
