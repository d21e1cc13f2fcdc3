"""Rows of a benchmark in one JSON file, a row a model, that a later run goes on with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm_fusionx.output_file import make_folder, new_file

Rows = dict[str, dict[str, Any]]


def read_rows(path: Path, content: Mapping[str, Any]) -> Rows:
    """Return the rows of an earlier run by model, if what else the file says is `content`."""
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    # As they come back of a file: tuples are lists there.
    same = json.loads(json.dumps(content))
    if any(found.get(key) != value for key, value in same.items()):
        return {}
    return {row["model"]: row for row in found["rows"]}


def write_rows(path: Path, content: Mapping[str, Any], rows: Rows) -> None:
    """Write the file, whole or not at all."""
    write_json(path, {**content, "rows": list(rows.values())})


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write what was measured, whole or not at all, into a folder that is made where it lacks."""
    make_folder(path.parent)
    with new_file(path) as scratch:
        scratch.write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8")
