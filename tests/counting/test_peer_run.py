from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.counting.counted_model import CORE, counted_library, counted_onnx
from tvm_fusionx.counting.arm_root import why_no_peers
from tvm_fusionx.counting.comparison import relative_error
from tvm_fusionx.counting.count import count_library
from tvm_fusionx.counting.peer_run import SIDES, check_sides, count_peer
from tvm_fusionx.errors import MissingDependencyError, TargetError
from tvm_fusionx.report.peers.conversions import Conversions


def test_unknown_runtimes_and_a_missing_root_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_FUSIONX_CACHE", str(tmp_path))
    check_sides([])
    assert "ort" in SIDES
    with pytest.raises(TargetError, match="openvino"):
        check_sides(["ort", "openvino"])
    with pytest.raises(MissingDependencyError, match="--fetch-peers"):
        check_sides(["ort"])
    with pytest.raises(MissingDependencyError, match="--fetch-peers"):
        count_peer("ort", tmp_path / "m.onnx", {}, CORE)


@pytest.mark.slow
@pytest.mark.parametrize(("side", "bound"), [("ort", 1e-5), ("ncnn", 1e-5), ("mnn-int8", 0.05)])
def test_another_runtime_is_counted_beside_ours(side: str, bound: float, tmp_path: Path) -> None:
    library = counted_library()
    problem = why_no_peers()
    if problem is not None:
        pytest.skip(problem)
    inputs = {"x": np.random.default_rng(0).standard_normal((4, 16)).astype("float32")}
    ours = count_library(library, CORE, inputs=inputs, with_caches=False, cores=())
    kept = Conversions(tmp_path / "conversions")
    count = count_peer(
        side, counted_onnx(), inputs, CORE, with_caches=False, cores=(), conversions=kept
    )
    assert count.side == side
    assert count.total.multiply_adds > 0
    assert not any("python3" in kernel.name for kernel in count.kernels)
    error = relative_error(count, ours)
    assert error is not None
    assert error < bound
