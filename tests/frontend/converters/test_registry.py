from __future__ import annotations

import pytest
from onnx import defs

from tvm_fusionx.frontend.converters import CONVERTERS


@pytest.mark.parametrize("op_type", sorted(CONVERTERS))
def test_a_converter_names_a_definition_that_exists(op_type: str) -> None:
    domain, _, name = op_type.rpartition(".")
    versions = {
        schema.since_version
        for schema in defs.get_all_schemas_with_history()
        if (schema.name, schema.domain) == (name, domain)
    }
    # Operators that became others share the newer one's function.
    assert CONVERTERS[op_type].through in versions or op_type in ("Scatter", "Upsample")


def test_faults_of_tvm_are_told_in_a_sentence() -> None:
    faults = [row.because for row in CONVERTERS.values() if row.because]
    assert len(set(faults)) > 20
    assert all(not fault.endswith(".") for fault in faults)
