"""Rows of a benchmark in one JSON file, a row a model, that a later run goes on with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm_fusionx.output_file import new_file

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
    with new_file(path) as scratch:
        text = json.dumps({**content, "rows": list(rows.values())}, indent=1)
        scratch.write_text(f"{text}\n", encoding="utf-8")
