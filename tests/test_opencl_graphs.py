"""Random valid ONNX graphs compiled for OpenCL agree with ONNX Runtime."""

from __future__ import annotations

import pytest

pytest.importorskip("onnxruntime")

from tests.opencl_device import require_opencl
from tests.random_graphs import generate
from tests.random_graphs.check import OK, REFUSED, check, compile_for_opencl
from tests.sampled import few_fast

SEEDS = range(40)
SIZE = 4  # nodes a graph


@pytest.fixture(autouse=True)
def _device() -> None:
    require_opencl()


@pytest.mark.parametrize("seed", few_fast(SEEDS, 5))
def test_small_graphs_agree_with_onnxruntime(seed: int) -> None:
    random_model = generate(seed, SIZE)
    outcome = check(
        compile_for_opencl, random_model.model, random_model.inputs, random_model.outputs
    )
    assert outcome.status in (OK, REFUSED), f"{dict(random_model.operators)}: {outcome}"
