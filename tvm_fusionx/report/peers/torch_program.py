"""The torch module of a model, for PyTorch itself and for the runtimes that convert from it.

A model made with torch comes with the module that it was exported from: a file of the same name
that ends in ``.pt2``, as ``zoo.export(name, path, "program")`` writes. A model that exists as an
ONNX file alone is converted by onnx2torch.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import re
import subprocess
import sys
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.report.peers.conversions import onnx_sources, shape_sources

PROGRAM_SUFFIX = ".pt2"

# Operators that onnx2torch imports torchvision for, which torch's build for CPUs has no match of on
# PyPI.
TORCHVISION_OPERATORS = ("box_convert", "nms", "roi_align")

# A conversion takes seconds to a few minutes; one that takes longer hangs.
CONVERSION_SECONDS = 600

EXCEPTION_LINE = re.compile(r"[A-Za-z_.]+(Error|Exception|Exit)\b")


def load_module(model: Path, inputs: Mapping[str, np.ndarray]) -> Any:
    """Return a torch module in evaluation mode that takes `inputs` by position.

    Raises
    ------
    MissingDependencyError
        torch, or onnx2torch where it is needed, is not installed.
    """
    import torch

    _refuse_triton()
    program = model.with_suffix(PROGRAM_SUFFIX)
    if program.is_file():
        return torch.export.load(str(program)).module()
    return _from_onnx(model, inputs)


def tensors(inputs: Mapping[str, np.ndarray]) -> tuple[Any, ...]:
    """Return the inputs as torch tensors, in their order."""
    import torch

    return tuple(torch.from_numpy(np.asarray(value, order="C")) for value in inputs.values())


def arrays(results: Any) -> list[np.ndarray]:
    """Return what a torch module returned, one tensor or several, as arrays."""
    return [
        result.detach().numpy()
        for result in (results if isinstance(results, (tuple, list)) else (results,))
    ]


def program_file(model: Path, inputs: Mapping[str, np.ndarray], folder: Path) -> Path:
    """Return the model's exported program as a file, written to `folder` where there is none."""
    import torch

    _refuse_triton()
    program = model.with_suffix(PROGRAM_SUFFIX)
    if program.is_file():
        return program
    module = _from_onnx(model, inputs)
    with torch.no_grad(), warnings.catch_warnings(), told_in_one_line("torch.export"):
        warnings.simplefilter("ignore")
        exported = torch.export.export(module, tensors(inputs))
    made = folder / f"model{PROGRAM_SUFFIX}"
    torch.export.save(exported, str(made))
    return made


def program_sources(model: Path, inputs: Mapping[str, np.ndarray]) -> list[str | Path]:
    """Return what a conversion of :func:`program_file` depends on."""
    import torch

    program = model.with_suffix(PROGRAM_SUFFIX)
    files = [program] if program.is_file() else onnx_sources(model)
    return [*files, *shape_sources(inputs), torch.__version__]


@contextlib.contextmanager
def told_in_one_line(step: str) -> Iterator[None]:
    """Shorten what torch raises to its first line: its compilers append the whole graph.

    Raises
    ------
    RuntimeError
        In place of any exception.
    """
    try:
        yield
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        raise RuntimeError(f"{step} failed: {type(error).__name__}: {lines[0]}") from error


def convert_apart(converter: str, script: str, program: Path, made: Path) -> None:
    """Run a Python program in a process of its own that turns `program` into `made`.

    Converters print, hold the model several times in memory, and bring an LLVM that must not meet
    TVM's in one process.

    Raises
    ------
    RuntimeError
        It made nothing; with the last line of what it printed.
    """
    command = [sys.executable, "-c", script, str(program), str(made)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=CONVERSION_SECONDS, check=False
    )
    if done.returncode != 0 or not made.exists():
        printed = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(
            f"{converter} failed: {_error_line(printed) if printed else done.returncode}"
        )


def _error_line(printed: Sequence[str]) -> str:
    """Return the line that names the exception, after which some converters print advice."""
    named = [line for line in printed if EXCEPTION_LINE.match(line)]
    return (named or list(printed))[-1].strip()


def _refuse_triton() -> None:
    """Raise where torch would load triton, whose LLVM ends a process that has loaded TVM's."""
    if importlib.util.find_spec("triton") is not None:
        raise RuntimeError(
            "triton is installed, whose LLVM ends a process that has loaded TVM's: "
            "install torch's build for CPUs and uninstall triton"
        )


def _from_onnx(model: Path, inputs: Mapping[str, np.ndarray]) -> Any:
    if importlib.util.find_spec("onnx2torch") is None:
        raise MissingDependencyError(
            "onnx2torch",
            expected=f"the converter to torch, as there is no {model.stem}{PROGRAM_SUFFIX}",
            found="not installed",
            next_step="Install it with: pip install --no-deps onnx2torch.",
        )
    import onnx
    import onnxslim

    with _torchvision_stand_in():
        import onnx2torch

    shapes = [f"{name}:{','.join(map(str, value.shape))}" for name, value in inputs.items()]
    # onnx2torch reads weights from initialisers alone, where some exporters write nodes.
    slim = onnxslim.slim(onnx.load(str(model)), input_shapes=shapes)
    return onnx2torch.convert(slim).eval()


@contextlib.contextmanager
def _torchvision_stand_in() -> Iterator[None]:
    """Let onnx2torch be imported where torchvision is missing; no model here uses its operators."""
    if importlib.util.find_spec("torchvision") is not None:
        yield
        return

    def absent(*_: Any, **__: Any) -> Any:
        raise RuntimeError("this operator of the model needs torchvision, which is not installed")

    package, operators = types.ModuleType("torchvision"), types.ModuleType("torchvision.ops")
    for module in (package, operators):
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
    for name in TORCHVISION_OPERATORS:
        setattr(operators, name, absent)
    package.__dict__.update(ops=operators, __path__=[])
    both = {module.__name__: module for module in (package, operators)}
    sys.modules.update(both)
    try:
        yield
    finally:
        for name in both:
            sys.modules.pop(name, None)
