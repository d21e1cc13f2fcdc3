"""Write the schemas of ONNX Runtime's own operators, as far as we translate them, to a data file.

    python benchmarks/contrib_schemas.py   # tvm_fusionx/frontend/contrib_schemas.json

The package `onnx` does not know these operators. Run it with the onnxruntime of
`requirements/constraints.txt` after a converter was added; a test compares the file with what this
gives.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import onnx
import onnxruntime
from measured_runs import ROOT
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

from tvm_fusionx.frontend.converters import CONVERTERS
from tvm_fusionx.frontend.converters.microsoft.registry import ANY

FILE = ROOT / "tvm_fusionx" / "frontend" / "contrib_schemas.json"
# Some defaults stand in a sentence only, and the kernels read them as such.
TOLD_DEFAULT = re.compile(r"[Dd]efault value is (-?\d+(?:\.\d+)?)f?(?![\w/])")
MARKS = {"Optional": "?", "Variadic": "*"}
NUMBERS = {"INT": int, "FLOAT": float}


def _option(parameter: Any) -> str:
    return str(parameter.option).rpartition(".")[2].split(":")[0]


def _parameters(parameters: Any) -> list[str]:
    return [parameter.name + MARKS.get(_option(parameter), "") for parameter in parameters]


def _attribute(attribute: Any) -> dict[str, Any]:
    kind = str(attribute.type).rpartition(".")[2].split(":")[0]
    row: dict[str, Any] = {"type": kind}
    if attribute.required:
        row["required"] = True
    default = onnx.AttributeProto.FromString(attribute._default_value)
    told = TOLD_DEFAULT.search(" ".join(attribute.description.split()))
    if default.name:
        value = onnx.helper.get_attribute_value(default)
        row["default"] = value.decode() if isinstance(value, bytes) else value
        row["source"] = "schema"
    elif told is not None and kind in NUMBERS:
        row["default"] = NUMBERS[kind](float(told[1]))
        row["source"] = "description"
    return row


def schemas() -> dict[str, Any]:
    """Return the content of the file."""
    rows = {}
    for schema in runtime.get_all_operator_schema():
        name = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
        if name not in CONVERTERS or (not schema.domain and CONVERTERS[name].through != ANY):
            continue
        rows[name] = {
            "attributes": {
                name: _attribute(attribute) for name, attribute in sorted(schema.attributes.items())
            },
            "inputs": _parameters(schema.inputs),
            "outputs": _parameters(schema.outputs),
        }
    return {"onnxruntime": onnxruntime.__version__, "operators": dict(sorted(rows.items()))}


def text() -> str:
    """Return the file as it is written."""
    return json.dumps(schemas(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
