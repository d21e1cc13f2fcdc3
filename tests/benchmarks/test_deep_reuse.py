from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.benchmarks.scripts import script

PICTURES = Path("/usr/share/datasets/fashion-mnist")


def _network() -> Any:
    """Return one convolution and a product of its averages, for any number of pictures."""
    draw = np.random.default_rng(0)
    held = {"w": draw.standard_normal((16, 1, 3, 3)), "v": draw.standard_normal((16, 10))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("MatMul", ["f", "v"], ["y"], "product"),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 28, 28])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(array.astype("float32"), name) for name, array in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.slow
@pytest.mark.skipif(not PICTURES.exists(), reason="no pictures: apt install dataset-fashion-mnist")
def test_a_network_made_to_reuse(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    reuse = script("deep_reuse")
    onnx.save(_network(), tmp_path / "fashion-tiny.onnx")
    rows, whole = reuse.run_network(tmp_path / "fashion-tiny.onnx", "tiny", 2, quick=True)
    (told,) = whole
    assert told["layers"] == 2
    assert 0 < told["reusing"] == len(rows) <= 2
    for row in rows:
        assert row.error <= reuse.QUICK_ERRORS[0]
        assert 0 <= row.saved < 1
        for target in reuse.TARGETS:
            assert row.gains[target] == pytest.approx(1 / sum(row.shares[target]))
    saved = sum(row.saved * row.products for row in rows) / sum(row.products for row in rows)
    assert told["saved"] == pytest.approx(saved)
    assert f"| tiny | 2 | 0.3 | {len(rows)} of 2 |" in reuse.table(whole)
