"""A tiny model compiled for an Arm core, once a session."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from tests.counting.test_emulator import require_counting
from tests.tiny_models import perceptron, save
from tvm_fusionx.counting.model_build import compile_for_core

CORE = "cortex-a76"


@functools.cache
def _library() -> tuple[Path, Path, tempfile.TemporaryDirectory[str]]:
    kept = tempfile.TemporaryDirectory(prefix="fusionx-counted-")
    folder = Path(kept.name)
    model = save(perceptron(), folder)
    path = folder / "perceptron.tar"
    compile_for_core(model, path, CORE)
    return path, model, kept


def counted_library() -> Path:
    """Return the library file of a perceptron for one Cortex-A76, or skip."""
    require_counting()
    return _library()[0]


def counted_onnx() -> Path:
    """Return its ONNX file."""
    return _library()[1]
