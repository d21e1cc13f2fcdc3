from __future__ import annotations

import pytest

from tests.search.small_spaces import CNNS, TRANSFORMERS
from tests.search.test_pruned_layers import candidate_of

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from tvm_fusionx.search.networks import input_of  # noqa: E402
from tvm_fusionx.search.proxy import flops_of  # noqa: E402
from tvm_fusionx.search.space import Candidate  # noqa: E402
from tvm_fusionx.search.torch_network import torch_network  # noqa: E402


def _dense(candidate: Candidate) -> Candidate:
    choices = {
        name: "none" if name.endswith(".pruning") else value
        for name, value in candidate["choices"].items()
    }
    return {**candidate, "choices": choices}


@pytest.mark.parametrize("kind", ["dense", "depthwise"])
@pytest.mark.parametrize("content", [CNNS, TRANSFORMERS])
def test_operations_are_those_that_torch_counts(content: dict, kind: str) -> None:
    candidate = _dense(candidate_of(content, "block4x1:0.5", kind=kind, kernel=3, expansion=2))
    shape, dtype = input_of(candidate)
    network = torch_network(candidate).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.zeros(shape, dtype=getattr(torch, dtype)))
    assert flops_of(candidate) == counter.get_total_flops()


def test_pruned_weights_count_by_what_is_left() -> None:
    pruned = candidate_of(CNNS, "block4x1:0.75", kernel=3)
    dense = _dense(pruned)
    # The classes' product has no symbol.
    classes = 2 * 8 * 3
    assert flops_of(pruned) - classes == pytest.approx((flops_of(dense) - classes) / 4)
