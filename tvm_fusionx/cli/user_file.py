"""Run a Python file of the user's, which an option names."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from tvm_fusionx.errors import FusionXError, InputError


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
    except (Exception, SystemExit) as error:
        raise ValueError(f"{path} fails: {type(error).__name__}: {error}") from error
    return module


def reporting(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a user's function whose errors are told to be its own.

    Raises
    ------
    InputError
        When called: it raised, or ended the program.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except FusionXError:
            raise
        except (Exception, SystemExit) as error:
            raise InputError(
                name,
                expected="a function that returns",
                found=" ".join(f"{type(error).__name__}: {error}".split()),
                next_step="Mend the function; --debug shows where it fails.",
            ) from error

    return call
