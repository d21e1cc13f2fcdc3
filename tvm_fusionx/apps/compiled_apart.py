"""Compile a model's programs in a process of their own, which then ends.

A compiler leaves behind several times what a model takes: modules of TVM and LLVM, kernels linked
into the process, weights before and after they were packed. Who runs the model would hold all of it
for as long as it runs. What TVM ends the process at is an error here, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import logging
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm_fusionx import errors
from tvm_fusionx.build.library import Library, load_programs, save_library
from tvm_fusionx.build.mapped_weights import save_weights, with_weights
from tvm_fusionx.code_cache.setting import OFF, VARIABLE, folder_in_use
from tvm_fusionx.errors import FusionXError, ModelError
from tvm_fusionx.output_file import NO_SPACE, disk_full, new_folder

logger = logging.getLogger(__name__)

# Of the folder of a cache's length.
LIBRARY, WEIGHTS = "programs.tar", "weights"
FILES = (LIBRARY, WEIGHTS)

# What the child runs, with what this process imports from: without its own folder and environment.
# Lines are for who reads them: all else that is printed goes to standard error. Ctrl-C in a
# terminal reaches both processes, and the parent is who answers it.
SCRIPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
lines = os.dup(1)
os.dup2(2, 1)
parent, told, *sys.path[:] = sys.argv[1:]
from tvm_fusionx.apps.compiled_apart import main
main(int(parent), told, lines)
"""

STAGE, ERROR = "stage", "error"

# Of ``prctl`` (linux/prctl.h): the signal that a process gets when its parent ends.
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Wanted(ABC):
    """What is compiled. Its kind says how; its fields are numbers, texts and tuples of them."""

    model: str
    """Path of the model's file."""
    digest: str
    """Of the file, as the kind computes it."""
    target: str
    folder: str
    """Where library and weights are written."""

    @abstractmethod
    def compile_here(self, on_stage: Callable[[str], None]) -> None:
        """Compile in this process, and write library and weights into the folder.

        Raises
        ------
        FusionXError
            What is wrong with the model; :class:`ModelError` where its file was replaced.
        """


def compile_apart(wanted: Wanted, on_stage: Callable[[str], None]) -> None:
    """Compile in a process of its own, and write the files whole or not at all.

    Raises
    ------
    FusionXError
        What the process met; :class:`ModelError` where it was ended.
    """
    folder = Path(wanted.folder)
    with new_folder(folder, FILES) as scratch:
        kind = type(wanted)
        fields = asdict(wanted) | {"folder": os.fspath(scratch.resolve())}
        told = json.dumps([kind.__module__, kind.__name__, fields])
        with subprocess.Popen(
            [sys.executable, "-I", "-c", SCRIPT, str(os.getpid()), told, *sys.path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=_environment(),
        ) as process:
            try:
                problem = _follow(process, on_stage)
            except BaseException:
                process.kill()
                raise
        if problem is not None:
            raise problem
        if process.returncode != 0:
            raise ModelError(
                f"model {wanted.model}",
                expected="one that compiles",
                found=f"the process that compiled it ended with {process.returncode}",
                next_step="Its standard error says why; memory may have been short.",
            )


def save_compiled(programs: Sequence[Library], folder: str | Path) -> None:
    """Write programs of one model, weights that are equal the same arrays, as they are loaded.

    Raises
    ------
    OutputFileError, DiskFullError
        They cannot be written.
    """
    where = Path(folder)
    save_library(save_weights(programs, where / WEIGHTS), where / LIBRARY)


def load_compiled(folder: str | Path) -> tuple[Library, ...]:
    """Return the programs of a folder that was compiled to, their weights mapped.

    Raises
    ------
    LibraryFileError
        A file is missing or damaged.
    """
    where = Path(folder)
    return with_weights(load_programs(where / LIBRARY), where / WEIGHTS)


def _environment() -> dict[str, str]:
    """Return this process's environment, with its folder of kept kernels."""
    kernels = folder_in_use()
    return {**os.environ, VARIABLE: OFF if kernels is None else os.fspath(kernels.path)}


def _follow(process: subprocess.Popen[str], on_stage: Callable[[str], None]) -> FusionXError | None:
    """Tell the stages that a process prints; return the error that it met, once it ended."""
    assert process.stdout is not None
    problem = None
    for line in process.stdout:
        try:
            event: dict[str, Any] = json.loads(line)
        except ValueError:
            # What is printed before the script's first line, or a line that was cut off.
            logger.debug("%s", line)
            continue
        if STAGE in event:
            on_stage(event[STAGE])
        else:
            fields = event[ERROR]
            kind = getattr(errors, fields.pop("kind"))
            problem = kind(fields.pop("thing"), **fields)
    process.wait()
    return problem


def main(parent: int, told: str, handle: int) -> None:
    """Compile what was told, and tell how it goes by lines of JSON to an open file."""
    end_with(parent)
    # TVM's own schedules, which ours take the place of, advise to tune them.
    logging.getLogger("autotvm").setLevel(logging.ERROR)
    module, kind, fields = json.loads(told)
    # JSON has lists alone.
    fields = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
    wanted: Wanted = getattr(importlib.import_module(module), kind)(**fields)
    with os.fdopen(handle, "w", encoding="utf-8") as lines:

        def tell(event: str, value: Any) -> None:
            lines.write(json.dumps({event: value}) + "\n")
            lines.flush()

        # Who reads went away: there is nobody to compile for.
        with contextlib.suppress(BrokenPipeError):
            try:
                _compile_reported(wanted, lambda stage: tell(STAGE, stage))
            except FusionXError as error:
                names = ("thing", "expected", "found", "next_step")
                values = {name: getattr(error, name) for name in names}
                tell(ERROR, {"kind": type(error).__name__, **values})


def end_with(parent: int) -> None:
    """Have this process end with its parent, however that ends; at once where it did."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit


def _compile_reported(wanted: Wanted, on_stage: Callable[[str], None]) -> None:
    try:
        wanted.compile_here(on_stage)
    except FusionXError:
        raise
    except OSError as error:
        if error.errno in NO_SPACE:
            raise disk_full(error) from error
        raise
