from __future__ import annotations

from onnx import defs

from tvm_fusionx.frontend.contrib_schemas import contrib_schemas
from tvm_fusionx.frontend.converters import CONVERTERS

# Operators that became others share the newer one's function.
RENAMED = ("Scatter", "Upsample")


def test_a_converter_names_a_definition_that_exists() -> None:
    versions: dict[str, set[int]] = {}
    for schema in defs.get_all_schemas_with_history():
        name = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
        versions.setdefault(name, set()).add(schema.since_version)
    # ONNX Runtime's own are not in the package `onnx`, and have one version each.
    ours = {name: row for name, row in CONVERTERS.items() if name not in contrib_schemas()}
    assert set(ours) <= set(versions)
    wrong = {
        name: row.through
        for name, row in ours.items()
        if row.through not in versions[name] and name not in RENAMED
    }
    assert not wrong


def test_faults_of_tvm_are_told_in_a_sentence() -> None:
    faults = [row.because for row in CONVERTERS.values() if row.because]
    assert len(set(faults)) > 20
    assert all(not fault.endswith(".") for fault in faults)
