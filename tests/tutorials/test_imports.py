"""What a notebook imports of this package stands in the reference, and that stays short."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "tutorials").glob("*.ipynb"))
PACKAGE = "tvm_fusionx"

# A page names a module, all of whose members it shows, or one thing of it.
DOCUMENTED = {
    name
    for page in (ROOT / "docs" / "reference").glob("*.md")
    for name in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE)
}


def _imports(path: Path) -> Iterator[tuple[str, str]]:
    """Give module and name of everything that a notebook imports from this package."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        lines = [line for line in cell["source"] if not line.startswith(("%", "!"))]
        for node in ast.walk(ast.parse("".join(lines))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
                yield from ((str(node.module), each.name) for each in node.names)


def _places(module: str, name: str) -> set[str]:
    """Return the names under which the reference may have something."""
    found = getattr(importlib.import_module(module), name, None)
    home = getattr(found, "__module__", module)
    homes = {module, home if isinstance(home, str) else module}
    return homes | {f"{each}.{name}" for each in homes}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_what_a_notebook_imports_is_in_the_reference(path: Path) -> None:
    missing = [
        f"{module}.{name}"
        for module, name in _imports(path)
        if module != PACKAGE and not _places(module, name) & DOCUMENTED
    ]
    assert not missing, "make it public, in docs/reference, or do without"
