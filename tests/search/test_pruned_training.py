from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.search.small_spaces import CNNS
from tests.search.test_pruned_layers import candidate_of
from tvm_fusionx.search.pruned_layers import pruned_weights
from tvm_fusionx.search.space import Candidate
from tvm_fusionx.search.space_file import PRUNING_METHOD

torch = pytest.importorskip("torch", reason="torch is not installed")

from tvm_fusionx.compress.prune.config import METHODS, Training  # noqa: E402
from tvm_fusionx.search.pruned_training import (  # noqa: E402
    PrunedTraining,
    method_of,
    prune_and_retrain,
    targets_of,
)
from tvm_fusionx.search.torch_network import TorchNetwork, torch_network  # noqa: E402

STEPS = 40
LABELS = torch.arange(24) % 3
# A class is a brightness, behind noise.
X = (
    torch.randn(24, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    + LABELS[:, None, None, None]
)


def _candidate(method: str = "") -> Candidate:
    made = candidate_of(CNNS, "block4x1:0.75", kernel=3)
    if method:
        made["choices"][PRUNING_METHOD] = method
    return made


def _loss(network: Any, step: int) -> Any:
    return torch.nn.functional.cross_entropy(network(X), LABELS)


def _trained(candidate: Candidate, steps: int = STEPS) -> tuple[TorchNetwork, PrunedTraining]:
    network = torch_network(candidate, seed=1)
    found = prune_and_retrain(candidate, network, _loss, steps, Training(learning_rate=1e-2))
    return network, found


@pytest.mark.parametrize("method", METHODS)
def test_weights_get_their_zeros_and_learn(method: str) -> None:
    candidate = _candidate(method)
    before = _loss(torch_network(candidate, seed=1).train(), 0).item()
    network, found = _trained(candidate)
    assert found.method == method_of(candidate) == method
    names = {weight.layout.name for weight in pruned_weights(candidate)}
    assert set(found.sparsity) == names
    arrays = network.arrays()
    for name, sparsity in found.sparsity.items():
        assert sparsity == pytest.approx(np.mean(arrays[name] == 0)) == pytest.approx(0.75, abs=0.1)
        zeros = (arrays[name] == 0).reshape(-1, 4, arrays[name][0].size)
        assert (zeros.all(axis=1) == zeros.any(axis=1)).all()
    assert _loss(network.train(), 0).item() < before / 2
    assert found.details["sparsity"] == pytest.approx(0.75, abs=0.1)


def test_methods_end_with_other_weights() -> None:
    first, second, third = (_trained(_candidate(method))[0].arrays() for method in METHODS)
    name = targets_of(_candidate(), torch_network(_candidate()))[1].layout.name
    assert not np.array_equal(first[name], second[name])
    assert not np.array_equal(second[name], third[name])


def test_a_network_without_pruning_is_trained_for_as_many_steps() -> None:
    candidate = candidate_of(CNNS, "block4x1:0.75", kernel=3)
    candidate["choices"] = {
        name: "none" if name.endswith(".pruning") else value
        for name, value in candidate["choices"].items()
    }
    asked: list[int] = []

    def noted(network: Any, step: int) -> Any:
        asked.append(step)
        return _loss(network, step)

    network = torch_network(candidate, seed=1)
    found = prune_and_retrain(candidate, network, noted, STEPS)
    assert (found.method, found.details) == ("", {})
    assert asked == list(range(STEPS))


def test_the_same_seed_gives_the_same_weights() -> None:
    first, again = (_trained(_candidate("admm"))[0].arrays() for _ in range(2))
    assert all(np.array_equal(first[name], again[name]) for name in first)


def test_no_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="1 at least"):
        _trained(_candidate(), steps=0)
