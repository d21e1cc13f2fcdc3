"""Schemas of operators that ONNX Runtime defines and the package `onnx` does not know.

They come from `contrib_schemas.json`, which `benchmarks/contrib_schemas.py` writes from ONNX
Runtime's own list. A default is the schema's, or where the schema has none the one that its
description tells.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("contrib_schemas.json")

KINDS: dict[str, type | tuple[type, ...]] = {
    "FLOAT": float,
    "FLOATS": list,
    "INT": int,
    "INTS": list,
    "STRING": str,
    "STRINGS": list,
}


@dataclass(frozen=True)
class Attribute:
    """One attribute of a schema."""

    kind: str
    """ONNX's name of its type, such as ``INTS``."""
    is_required: bool
    default: Any
    """None where leaving it out means something that no value says."""


@dataclass(frozen=True)
class Schema:
    """What an operator takes and makes."""

    attributes: Mapping[str, Attribute]
    inputs: tuple[str, ...]
    """Names in order; ``?`` behind an optional one, ``*`` behind one that may be many."""
    outputs: tuple[str, ...]

    def position(self, name: str) -> int:
        """Return where an input stands."""
        return [given.rstrip("?*") for given in self.inputs].index(name)

    def why_not(self, attributes: Mapping[str, Any], inputs: list[bool]) -> tuple[str, str] | None:
        """Return (expected, found) where a node does not obey the schema, else None.

        Parameters
        ----------
        attributes
            Decoded, by name.
        inputs
            Whether each input is given.
        """
        for name, value in attributes.items():
            if name not in self.attributes:
                close = difflib.get_close_matches(name, self.attributes, 1)
                hint = f" (is it {close[0]!r}?)" if close else ""
                known = ", ".join(sorted(self.attributes)) or "none"
                return f"attributes among: {known}", f"the attribute {name!r}{hint}"
            kind = self.attributes[name].kind
            if not isinstance(value, KINDS[kind]):
                return f"the attribute {name!r} of type {kind}", repr(value)
        for name, attribute in self.attributes.items():
            if attribute.is_required and name not in attributes:
                return f"the attribute {name!r}, which has no default", "none"
        has_many = bool(self.inputs) and self.inputs[-1].endswith("*")
        if len(inputs) > len(self.inputs) and not has_many:
            return f"at most {len(self.inputs)} inputs", str(len(inputs))
        for position, name in enumerate(self.inputs):
            is_given = position < len(inputs) and inputs[position]
            if not is_given and not name.endswith(("?", "*")):
                return f"the input {name!r}", "none"
        return None

    def complete(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return attributes with the defaults of those left out."""
        defaults = {
            name: attribute.default
            for name, attribute in self.attributes.items()
            if attribute.default is not None
        }
        return {**defaults, **attributes}


@cache
def contrib_schemas() -> dict[str, Schema]:
    """Return all schemas, by the operator's name after its domain."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))["operators"]
    return {name: _schema(row) for name, row in rows.items()}


def _schema(row: Mapping[str, Any]) -> Schema:
    attributes = {
        name: Attribute(entry["type"], bool(entry.get("required", False)), entry.get("default"))
        for name, entry in row["attributes"].items()
    }
    return Schema(attributes, tuple(row["inputs"]), tuple(row["outputs"]))
