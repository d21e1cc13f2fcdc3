"""Compile a language model's programs in a process of their own, which then ends.

A compiler leaves behind several times what a model takes: modules of TVM and LLVM, kernels linked
into the process, weights before and after they were packed. Who runs the model would hold all of it
for as long as it runs. What TVM ends the process at is an error here, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm_fusionx import errors
from tvm_fusionx.build.fused_build import build_fused, kernel_notes
from tvm_fusionx.build.library import (
    Library,
    describe_library,
    load_programs,
    save_library,
)
from tvm_fusionx.build.mapped_weights import save_weights, with_weights
from tvm_fusionx.build.programs import sharing_weights
from tvm_fusionx.code_cache.setting import OFF, VARIABLE, folder_in_use
from tvm_fusionx.errors import FusionXError, InputError, ModelError
from tvm_fusionx.gguf.decoder_shape import decoder_shape
from tvm_fusionx.gguf.from_gguf import decoder_module, read_decoder
from tvm_fusionx.gguf.read import read_gguf
from tvm_fusionx.inputs import inputs_of
from tvm_fusionx.output_file import NO_SPACE, disk_full, new_folder
from tvm_fusionx.processors.targets import resolve_target

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

READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Wanted:
    """What is compiled."""

    model: str
    """Path of the GGUF file."""
    digest: str
    """Of the file: see :func:`digest_of`."""
    target: str
    chunks: tuple[int, ...]
    """Tokens of a step, for each program."""
    places: int
    """Of the cache; fewer where the model knows no later ones."""
    least_places: int
    """A model that knows fewer is refused."""
    activations: str
    """See :func:`tvm_fusionx.from_gguf`."""
    folder: str
    """Where library and weights are written."""


def compile_apart(wanted: Wanted, on_stage: Callable[[str], None]) -> None:
    """Compile in a process of its own, and write the files whole or not at all.

    Raises
    ------
    FusionXError
        What the process met; :class:`ModelError` where it was ended.
    """
    folder = Path(wanted.folder)
    with new_folder(folder, FILES) as scratch:
        told = json.dumps(asdict(wanted) | {"folder": os.fspath(scratch.resolve())})
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


def digest_of(path: str | Path) -> str:
    """Return the SHA-256 of a file's bytes.

    Raises
    ------
    ModelError
        There is no such file, or it cannot be read.
    """
    where = Path(path)
    found = hashlib.sha256()
    try:
        if not where.is_file():
            raise FileNotFoundError(None, "something else" if where.exists() else "no such file")
        with where.open("rb") as file:
            while part := file.read(READ_BYTES):
                found.update(part)
    except OSError as error:
        raise ModelError(
            f"model {where}",
            expected="a GGUF file",
            found=str(error.strerror),
            next_step="Check the path, or leave the model out for SmolLM2.",
        ) from error
    return found.hexdigest()


def check_same(path: str | Path, digest: str) -> None:
    """Make sure that a file is still what its programs are kept under.

    Raises
    ------
    ModelError
        It has other bytes.
    """
    if digest_of(path) != digest:
        raise ModelError(
            f"model {path}",
            expected="the bytes that it had at first",
            found="others: the file was replaced meanwhile",
            next_step="Start again, with a file that stays as it is.",
        )


def main(parent: int, told: str, handle: int) -> None:
    """Compile what was told, and tell how it goes by lines of JSON to an open file."""
    end_with(parent)
    wanted = Wanted(**{**(fields := json.loads(told)), "chunks": tuple(fields["chunks"])})
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
        compile_here(wanted, on_stage)
    except FusionXError:
        raise
    except OSError as error:
        if error.errno in NO_SPACE:
            raise disk_full(error) from error
        raise


def compile_here(wanted: Wanted, on_stage: Callable[[str], None]) -> None:
    """Compile in this process, and write library and weights into the folder.

    Raises
    ------
    ModelError
        The file is damaged or of an unknown kind, or was replaced.
    InputError
        The model knows shorter texts only.
    """
    path = Path(wanted.model)
    on_stage("reading the model")
    file = read_gguf(path)
    check_same(path, wanted.digest)
    context = decoder_shape(file).context
    if context < wanted.least_places:
        raise InputError(
            "text",
            expected=f"at most {context} tokens, prompt and answer together: the model knows no "
            "more",
            found=f"{wanted.least_places} at least",
            next_step="Shorten the prompt, or ask for fewer tokens.",
        )
    places = min(wanted.places, context)
    programs = sharing_weights(_built(wanted, places, read_decoder(file), on_stage))
    # Weights were read from the file until now.
    check_same(path, wanted.digest)
    folder = Path(wanted.folder)
    save_library(save_weights(programs, folder / WEIGHTS), folder / LIBRARY)


def _built(
    wanted: Wanted, places: int, read: tuple[Any, Any], on_stage: Callable[[str], None]
) -> Sequence[Library]:
    count, described = len(wanted.chunks), []
    for number, tokens in enumerate(wanted.chunks):
        prefix = f"compiling program {number + 1} of {count}, kept for next time: "
        mod, params = decoder_module(
            *read, tokens=tokens, cache=places, activations=wanted.activations
        )
        build = build_fused(
            mod,
            wanted.target,
            params=params,
            name=f"program{number}",
            on_stage=lambda stage, prefix=prefix: on_stage(prefix + stage),  # type: ignore[misc]
        )
        described.append(
            describe_library(
                build.library,
                model=Path(wanted.model).name,
                target=str(resolve_target(wanted.target)),
                inputs=inputs_of(mod, params),
                kernels=kernel_notes(build),
            )
        )
    return described
