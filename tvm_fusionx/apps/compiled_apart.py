"""Compile a language model's programs in a process of their own, which then ends.

A compiler leaves behind several times what a model takes: modules of TVM and LLVM, kernels linked
into the process, weights before and after they were packed. Who runs the model would hold all of it
for as long as it runs. What TVM ends the process at is an error here, too.
"""

from __future__ import annotations

import contextlib
import json
import os
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
from tvm_fusionx.errors import FusionXError, ModelError
from tvm_fusionx.gguf.decoder_shape import decoder_shape
from tvm_fusionx.gguf.from_gguf import decoder_module, read_decoder
from tvm_fusionx.gguf.read import read_gguf
from tvm_fusionx.inputs import inputs_of
from tvm_fusionx.output_file import new_folder
from tvm_fusionx.processors.targets import resolve_target

# Of the folder of a cache's length.
LIBRARY, WEIGHTS = "programs.tar", "weights"
FILES = (LIBRARY, WEIGHTS)

# What the child runs, with what this process imports from: without its own folder and environment.
SCRIPT = """
import sys
sys.path[:] = sys.argv[2:]
from tvm_fusionx.apps.compiled_apart import main
main(sys.argv[1])
"""

STAGE, ERROR = "stage", "error"


@dataclass(frozen=True)
class Wanted:
    """What is compiled."""

    model: str
    """Path of the GGUF file."""
    target: str
    chunks: tuple[int, ...]
    """Tokens of a step, for each program."""
    places: int
    """Of the cache."""
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
            [sys.executable, "-I", "-c", SCRIPT, told, *sys.path],
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
        event: dict[str, Any] = json.loads(line)
        if STAGE in event:
            on_stage(event[STAGE])
        else:
            fields = event[ERROR]
            kind = getattr(errors, fields.pop("kind"))
            problem = kind(fields.pop("thing"), **fields)
    process.wait()
    return problem


def main(told: str) -> None:
    """Compile what was told, and tell how it goes: on standard output, lines of JSON alone."""
    fields = json.loads(told)
    wanted = Wanted(**{**fields, "chunks": tuple(fields["chunks"])})
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as lines:
        # What TVM prints is not for who reads the lines.
        os.dup2(2, 1)

        def tell(event: str, value: Any) -> None:
            lines.write(json.dumps({event: value}) + "\n")
            lines.flush()

        # Who reads went away: there is nobody to compile for.
        with contextlib.suppress(BrokenPipeError):
            try:
                compile_here(wanted, lambda stage: tell(STAGE, stage))
            except FusionXError as error:
                names = ("thing", "expected", "found", "next_step")
                values = {name: getattr(error, name) for name in names}
                tell(ERROR, {"kind": type(error).__name__, **values})


def compile_here(wanted: Wanted, on_stage: Callable[[str], None]) -> None:
    """Compile in this process, and write library and weights into the folder.

    Raises
    ------
    ModelError
        The file is damaged or of an unknown kind, or of a model of shorter texts.
    """
    path = Path(wanted.model)
    on_stage("reading the model")
    file = read_gguf(path)
    context = decoder_shape(file).context
    if wanted.places > context:
        raise ModelError(
            f"model {path}",
            expected=f"one of texts of {wanted.places} tokens",
            found=f"{context}",
            next_step="Shorten the prompt, or ask for fewer tokens: the model knows no later "
            "places.",
        )
    programs = sharing_weights(_built(wanted, read_decoder(file), on_stage))
    folder = Path(wanted.folder)
    save_library(save_weights(programs, folder / WEIGHTS), folder / LIBRARY)


def _built(
    wanted: Wanted, read: tuple[Any, Any], on_stage: Callable[[str], None]
) -> Sequence[Library]:
    count, described = len(wanted.chunks), []
    for number, tokens in enumerate(wanted.chunks):
        prefix = f"compiling program {number + 1} of {count}, kept for next time: "
        mod, params = decoder_module(
            *read, tokens=tokens, cache=wanted.places, activations=wanted.activations
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
