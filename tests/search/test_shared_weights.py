from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.search.small_spaces import TRANSFORMERS, cnns, transformers
from tvm_fusionx.errors import SpaceError
from tvm_fusionx.search.executor import Job
from tvm_fusionx.search.space import Candidate
from tvm_fusionx.search.space_file import parse_space

torch = pytest.importorskip("torch", reason="torch is not installed")

from tvm_fusionx.search.shared_weights import (  # noqa: E402
    SharedExecutor,
    SharedWeights,
    largest,
    train_shared,
)
from tvm_fusionx.search.torch_network import torch_network  # noqa: E402

IDS = torch.arange(24).reshape(3, 8) % 20


def _shared() -> SharedWeights:
    return SharedWeights(transformers(), seed=1)


def _sampled(seed: int) -> Candidate:
    return transformers().sample(random.Random(seed))


def test_the_largest_network_is_the_weights_themselves() -> None:
    candidate = largest(transformers())
    assert candidate["choices"]["layers"] == 3
    expected = torch_network(candidate, seed=1)(IDS)
    torch.testing.assert_close(_shared().network(candidate)(IDS), expected)


@pytest.mark.parametrize("seed", range(4))
def test_a_network_computes_with_the_leading_part_of_each_weight(seed: int) -> None:
    shared, candidate = _shared(), _sampled(seed)
    alone = torch_network(candidate)
    layers = candidate["choices"]["layers"]
    arrays = {}
    for name, value in alone.arrays().items():
        place, _, rest = name.partition("_")
        number = int(place[1:])
        kinds = {0: "embed0", layers + 1: "classify_tokens0"}
        whole = shared.arrays()[f"{kinds.get(number, f'encoder{number - 1}')}_{rest}"]
        arrays[name] = np.ascontiguousarray(whole[tuple(map(slice, value.shape))])
    alone.load_arrays(arrays)
    torch.testing.assert_close(shared.network(candidate)(IDS), alone(IDS))


def test_training_teaches_all_networks_and_is_repeated_by_its_seed() -> None:
    labels = torch.arange(3)

    def trained() -> tuple[SharedWeights, list[float]]:
        shared = _shared()

        def loss_of(network: Any, step: int) -> Any:
            return torch.nn.functional.cross_entropy(network(IDS), labels)

        return shared, train_shared(shared, loss_of, 60, learning_rate=0.01, seed=2)

    shared, losses = trained()
    assert sum(losses[-5:]) < sum(losses[:5]) / 3
    for seed in range(4):
        found = shared.network(_sampled(seed))(IDS).argmax(1)
        assert found.tolist() == labels.tolist()
    again, same = trained()
    assert same == losses
    restored = _shared()
    restored.load_arrays(shared.arrays())
    assert all(np.array_equal(again.arrays()[n], v) for n, v in restored.arrays().items())


def test_an_executor_judges_equal_networks_once(tmp_path: Path) -> None:
    asked: list[int] = []

    def judge(network: Any) -> float:
        asked.append(1)
        return float(network(IDS).softmax(1).mean())

    started: list[int] = []
    jobs = [
        Job(number, _sampled(seed), {"folder": str(tmp_path)})
        for number, seed in enumerate((5, 6, 5))
    ]
    executor = SharedExecutor(_shared(), judge)
    ended = list(executor.run(jobs, lambda job: started.append(job.number)))
    assert started == [0, 1, 2]
    assert len(asked) == 2
    assert ended[0].returned["accuracy"] == ended[2].returned["accuracy"] == pytest.approx(1 / 3)


def test_a_judge_that_fails_is_a_reason(tmp_path: Path) -> None:
    def judge(network: Any) -> float:
        raise RuntimeError("no data")

    job = Job(0, _sampled(0), {"folder": str(tmp_path)})
    (ended,) = SharedExecutor(_shared(), judge).run([job], lambda job: None)
    assert ended.reason == "RuntimeError: no data"


def test_networks_that_cannot_share_are_refused() -> None:
    with pytest.raises(SpaceError, match="batch normalisation"):
        SharedWeights(cnns())
    foreign = parse_space({**TRANSFORMERS, "hidden": [32]}).sample(random.Random(0))
    with pytest.raises(SpaceError, match="of this space"):
        _shared().network(foreign)
    pruning = {"schemes": ["block4x1"], "rates": [0.5], "methods": ["one_shot"]}
    space = parse_space({**TRANSFORMERS, "pruning": pruning})
    with pytest.raises(SpaceError, match="no pruning"):
        SharedWeights(space).network(space.sample(random.Random(0)))
