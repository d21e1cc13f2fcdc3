from __future__ import annotations

import numpy as np

import tvm_fusionx as fx
from tests.data_models import boxes_and_scores, by_onnxruntime, suppressing
from tests.tiny_models import TARGET
from tvm_fusionx.report.bench.plain_machine import build_plain_machine


def test_tvms_own_kernels_agree_with_onnx_runtime_and_none_of_ours_is_noted() -> None:
    mod, params = fx.from_onnx(suppressing())
    program = build_plain_machine(mod, TARGET, params)
    given = boxes_and_scores()
    (found,) = program.run(**given)
    np.testing.assert_array_equal(found, by_onnxruntime(suppressing(), given)[0])
    assert program.kernels == ()
    assert [str(output) for output in program.outputs] == ["output_0:[?,3] int64"]
