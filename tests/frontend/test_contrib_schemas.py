from __future__ import annotations

import json

import pytest

from tests.benchmarks.scripts import script
from tvm_fusionx.frontend.contrib_schemas import FILE, contrib_schemas
from tvm_fusionx.frontend.converters import CONVERTERS


def test_the_file_is_what_onnx_runtime_lists() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    written = json.loads(FILE.read_text(encoding="utf-8"))
    if written["onnxruntime"] != onnxruntime.__version__:
        pytest.skip(f"written by onnxruntime {written['onnxruntime']}")
    assert FILE.read_text(encoding="utf-8") == script("contrib_schemas").text()


def test_each_converter_of_a_foreign_operator_has_a_schema() -> None:
    foreign = {name for name in CONVERTERS if name.startswith("com.microsoft")}
    assert len(foreign) > 30
    assert foreign <= set(contrib_schemas())


def test_defaults_come_from_the_schema_or_from_its_words() -> None:
    schemas = contrib_schemas()
    assert schemas["com.microsoft.FusedMatMul"].complete({"transA": 1}) == {
        "alpha": 1.0,
        "transA": 1,
        "transB": 0,
        "transBatchA": 0,
        "transBatchB": 0,
    }
    # A default that stands in a sentence only.
    attribute = schemas["com.microsoft.Attention"].attributes["mask_filter_value"]
    assert attribute.default == -10000.0
    # One that is told as a formula has no value.
    assert schemas["com.microsoft.Attention"].attributes["scale"].default is None


def test_what_a_node_may_not_say() -> None:
    schema = contrib_schemas()["com.microsoft.FusedMatMul"]
    both = [True, True]
    assert schema.why_not({"alpha": 0.5}, both) is None
    assert schema.why_not({"alhpa": 0.5}, both) == (
        "attributes among: alpha, transA, transB, transBatchA, transBatchB",
        "the attribute 'alhpa' (is it 'alpha'?)",
    )
    assert schema.why_not({"alpha": 1}, both) == ("the attribute 'alpha' of type FLOAT", "1")
    assert schema.why_not({}, [True, False]) == ("the input 'B'", "none")
    assert schema.why_not({}, [True, True, True]) == ("at most 2 inputs", "3")
    quantized = contrib_schemas()["com.microsoft.MatMulNBits"]
    found = quantized.why_not({"K": 8, "N": 8}, [True] * 3)
    assert found == ("the attribute 'block_size', which has no default", "none")


def test_inputs_have_names() -> None:
    schema = contrib_schemas()["com.microsoft.QGemm"]
    assert schema.position("C") == 6
    assert schema.position("y_zero_point") == 8
