from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.report.peers.small_program import check_program
from tvm_fusionx.report.peers import lite_rt


def test_names_are_ordered_by_their_number() -> None:
    assert lite_rt._in_order(["args_10", "args_2", "args_0"]) == ["args_0", "args_2", "args_10"]


def test_levels_stand_for_numbers() -> None:
    quantized = {"quantization": (0.5, -3), "dtype": np.int8}
    levels = lite_rt.stored(np.array([0.0, 1.0, -0.76, 900.0], "float32"), quantized)
    assert levels.dtype == np.int8
    assert levels.tolist() == [-3, -1, -5, 127]
    assert lite_rt.meant(levels, quantized).tolist() == [0.0, 1.0, -1.0, 65.0]
    plain = {"quantization": (0.0, 0), "dtype": np.float32}
    value = np.array([0.25], "float32")
    assert np.array_equal(lite_rt.stored(value, plain), value)
    assert lite_rt.meant(value, plain) is value


@pytest.mark.slow
def test_it_computes_what_torch_computes(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("litert_torch")
    check_program("litert", tmp_path)
