"""The Python file that trains a candidate, looked at before anything runs."""

from __future__ import annotations

import ast
from pathlib import Path

from tvm_fusionx.errors import ModelError

FUNCTION = "train"


def check_training(path: str | Path) -> Path:
    """Return the absolute path of a file with a function ``train(candidate, trial)``.

    Nothing of it is run: what it imports may take long, and belongs to the trials.

    Raises
    ------
    ModelError
        There is no such file, it is no Python, or defines no such name.
    """
    file = Path(path)
    if not file.is_file():
        raise _refused(path, "no such file")
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except SyntaxError as error:
        raise _refused(path, f"line {error.lineno}: {error.msg}") from error
    except ValueError as error:
        raise _refused(path, str(error)) from error
    if FUNCTION not in _defined(tree):
        raise _refused(path, f"no {FUNCTION}")
    return file.resolve()


def _defined(tree: ast.Module) -> set[str]:
    """Return the names that a module may define: by ``def``, a value, or an import."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            # Of `*` nobody knows before it runs.
            names |= {
                FUNCTION if each.name == "*" else each.asname or each.name for each in node.names
            }
    return names


def _refused(path: str | Path, found: str) -> ModelError:
    return ModelError(
        f"training {path}",
        expected="a Python file with a function train(candidate, trial)",
        found=found,
        next_step="Mend it, or give another path; docs/how-to/search-an-architecture.md has one.",
    )
