"""Compile a model for one core of an Arm processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tvm_fusionx.build.library import save_library
from tvm_fusionx.build.programs import Programs, build_programs
from tvm_fusionx.code_cache.setting import kernel_cache
from tvm_fusionx.counting.emulator import check_core
from tvm_fusionx.devices.build_server import ARCHITECTURES
from tvm_fusionx.devices.emulation import ARCH
from tvm_fusionx.errors import ModelError, TargetError
from tvm_fusionx.processors.core_features import is_linux_on_aarch64
from tvm_fusionx.processors.targets import resolve_target

# One core: what runs is counted on one thread, and loops that are shared out are other code.
TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu={core} -num-cores=1"


def target_text(core: str) -> str:
    """Return the TVM target of one core."""
    return TARGET.format(core=core)


def compile_for_core(
    model: str | Path,
    path: str | Path,
    core: str,
    *,
    shape: Mapping[str, tuple[int, ...]] | None = None,
    target: str | None = None,
    on_stage: Callable[[str], Any] | None = None,
    **options: Any,
) -> None:
    """Compile the ONNX file `model` into the library file `path` for one core.

    Parameters
    ----------
    shape
        Shapes of inputs that are dynamic in the file.
    target
        In the place of :func:`target_text`: further attributes, or features.
    options
        What :func:`tvm_fusionx.build.programs.build_programs` takes.

    Raises
    ------
    TargetError
        There is no such core.
    ModelError
        The model needs TVM's virtual machine.
    LinkError, MissingDependencyError, OutputFileError
        The library cannot be linked or written.
    """
    check_core(core)
    resolved = resolve_target(target or target_text(core))
    if not is_linux_on_aarch64(str(resolved.attrs.get("mtriple", ""))):
        raise TargetError(
            "target",
            expected=f"one for {ARCH}, which is emulated",
            found=repr(str(resolved)),
            next_step=f'Begin with "{target_text(core)}", or leave it out.',
        )
    if on_stage is not None:
        options["on_stage"] = on_stage
    # What is counted is told by the kernels' own names.
    with kernel_cache(use=False):
        made = build_programs(
            model, resolved, [shape or {}], model_name=Path(model).stem, **options
        )
    if not isinstance(made, Programs):
        raise ModelError(
            f"model {model}",
            expected="static shapes, for TVM's graph executor",
            found=f"one for its virtual machine: {made.reason}",
            next_step="Count a part of the model, or give shapes with --input-shapes.",
        )
    save_library(made.programs, path, compiler=ARCHITECTURES[ARCH].compiler)
