from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.search.small_spaces import cnns, transformers
from tvm_fusionx.search.space import Space

torch = pytest.importorskip("torch", reason="torch is not installed")

from tvm_fusionx.search.torch_network import torch_network  # noqa: E402


@pytest.mark.parametrize("space", [transformers, cnns])
def test_a_network_learns_what_it_is_shown(space: Callable[[], Space]) -> None:
    torch.manual_seed(0)
    candidate = space().sample(random.Random(4))
    network = torch_network(candidate, seed=1)
    is_cnn = candidate["family"] == "cnn"
    x = torch.randn(12, 1, 8, 8) if is_cnn else torch.randint(0, 20, (12, 8))
    labels = torch.arange(12) % 3
    optimiser = torch.optim.Adam(network.parameters(), 0.01)
    losses = []
    for _ in range(40):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(x), labels)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_weights_depend_on_the_seed_alone() -> None:
    candidate = cnns().sample(random.Random(0))
    first, again, other = (torch_network(candidate, seed).arrays() for seed in (3, 3, 4))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)


def test_weights_are_taken_by_name() -> None:
    candidate = cnns().sample(random.Random(0))
    one, two = torch_network(candidate, 0), torch_network(candidate, 1)
    two.load_arrays(one.arrays())
    assert all(np.array_equal(a, two.arrays()[name]) for name, a in one.arrays().items())
    with pytest.raises(RuntimeError, match="Missing"):
        two.load_arrays({})


def test_what_fits_is_inherited_and_the_rest_stays() -> None:
    candidate = cnns().sample(random.Random(0))
    parent, child = torch_network(candidate, 0), torch_network(candidate, 1)
    before, given = child.arrays(), parent.arrays()
    name = max(given, key=lambda each: given[each].size)
    other = {**given, name: given[name].ravel(), "of no layer": np.ones(3, np.float32)}
    sizes = {each: array.size for each, array in before.items()}
    assert child.inherit(other) == pytest.approx(1 - sizes[name] / sum(sizes.values()))
    for each, array in child.arrays().items():
        assert np.array_equal(array, before[each] if each == name else given[each])
    assert child.inherit(given) == 1.0
    assert child.inherit({}) == 0.0
    assert np.array_equal(child.arrays()[name], given[name])
