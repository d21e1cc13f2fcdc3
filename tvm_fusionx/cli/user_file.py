"""Run a Python file of the user's, which an option names."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def run_file(path: str | Path) -> ModuleType:
    """Return what a Python file defines.

    Raises
    ------
    ValueError
        There is no such file, it is no Python file, or it fails; the text says which.
    """
    if not Path(path).is_file():
        raise ValueError(f"no file {path}")
    spec = importlib.util.spec_from_file_location("fusionx_user_file", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path}, which is no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path} fails: {type(error).__name__}: {error}") from error
    return module
