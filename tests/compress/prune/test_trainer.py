from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compress.prune.small_modules import nn, perceptron, task, torch
from tvm_fusionx.compress.prune.batches import Batches
from tvm_fusionx.compress.prune.config import METHODS, PruneConfig
from tvm_fusionx.compress.prune.read_config import parse_config
from tvm_fusionx.compress.prune.torch_layers import find_layers
from tvm_fusionx.compress.prune.trainer import Target, Trainer, distance
from tvm_fusionx.errors import InputError

X, Y = task()
BATCHES = Batches(X, Y, size=32)


def _train(module: Any, step: int) -> Any:
    x, y = BATCHES[step]
    outputs = module(x)
    return nn.functional.cross_entropy(outputs, y), outputs


def _accuracy(module: Any) -> float:
    return float((module(X).argmax(1) == Y).float().mean())


def _config(method: str, **training: Any) -> PruneConfig:
    words = {"prune_steps": 30, "retrain_steps": 20, "update_every": 5, "checkpoint_every": 7}
    return parse_config(
        {
            "global_config": {"structure": "block", "block_size": 2, "target_sparsity": 0.75},
            "weight_threshold": 0,
            "training": {**words, "method": method, "learning_rate": 1e-2, **training},
        }
    )


def _trainer(
    module: Any, config: PruneConfig, train: Any = _train, path: Path | None = None, **more: Any
) -> Trainer:
    targets = []
    for layout, parameter in find_layers(module):
        structure, _ = config.structure_of(layout)
        assert structure is not None
        targets.append(Target(layout, parameter, structure))
    given = {"evaluate": _accuracy, "resume": False, "stage": lambda _: None, **more}
    return Trainer(module, targets, config, train, checkpoint=path, **given)


class Killed(BaseException):
    """As a signal would end it."""


@pytest.mark.parametrize("method", METHODS)
def test_a_run_that_was_killed_at_any_step_ends_as_an_unbroken_one(
    method: str, tmp_path: Path
) -> None:
    config = _config(method, distillation=0.5)
    unbroken = perceptron()
    whole = _trainer(unbroken, config)
    whole.run()
    path = tmp_path / "c.pt"
    # Kills in the first part, between two checkpoints, at the cut, and at the very end.
    kills = [3, 11, 21, 30, 31, 44, 49]
    while True:

        def train(module: Any, step: int) -> Any:
            if kills and step == kills[0]:
                kills.pop(0)
                raise Killed
            return _train(module, step)

        module = perceptron()
        broken = _trainer(module, config, train, path, resume=path.exists())
        torch.manual_seed(len(kills))  # whatever was drawn before
        try:
            broken.run()
        except Killed:
            continue
        break
    for name, tensor in unbroken.state_dict().items():
        assert torch.equal(tensor, module.state_dict()[name]), name
    assert broken.scores == whole.scores
    # A run that is done is not done again.
    asked: list[int] = []
    _trainer(perceptron(), config, lambda _, step: asked.append(step), path, resume=True).run()
    assert asked == []


@pytest.mark.parametrize("method", METHODS)
def test_weights_are_zero_in_blocks_and_the_net_still_learns(method: str) -> None:
    dense = perceptron()
    config = _config(method, retrain_steps=60)
    trainer = _trainer(dense, config)
    before = _accuracy(dense.eval())
    trainer.run()
    weights = dense[0].weight.detach().numpy()
    blocks = (weights != 0).reshape(16, 2, 16)
    assert (blocks == blocks[:, :1]).all()
    assert blocks.mean() == 0.25
    assert trainer.scores["dense"] == before
    assert trainer.scores["score"] > before + 0.2


def test_admm_comes_to_the_nearest_point_of_a_convex_case() -> None:
    generator = np.random.default_rng(0)
    wanted = torch.from_numpy(generator.normal(size=(6, 8)).astype("float32"))
    module = nn.Linear(8, 6, bias=False)
    nn.init.zeros_(module.weight)

    def train(each: Any, _: int) -> Any:
        return (each.weight - wanted).square().sum() / 2

    training = {"optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.5, "rho": [1.0, 3.0]}
    config = _config("admm", prune_steps=600, retrain_steps=0, warm_up=0.0, **training)
    trainer = _trainer(module, config, train, evaluate=None)
    apart = []
    step_of = trainer._step

    def step(number: int) -> None:
        step_of(number)
        (target,) = trainer.targets
        apart.append(float((target.parameter.detach() - target.projected).norm()))

    trainer._step = step  # type: ignore[method-assign]
    trainer.run()
    (target,) = trainer.targets
    nearest = target.structure.mask(wanted.numpy())
    found = module.weight.detach().numpy()
    assert ((found != 0) == nearest).all()
    # Weights and their projection come together, before anything is cut.
    assert apart[-1] < 1e-3 * max(apart)
    assert np.abs(found - wanted.numpy() * nearest).max() < 1e-3


def test_gradual_masks_grow_as_the_schedule_says() -> None:
    module = perceptron(64)
    zeros = []

    def train(each: Any, step: int) -> Any:
        zeros.append(float((each[0].weight == 0).float().mean()))
        return _train(each, step)

    _trainer(module, _config("gradual", prune_steps=20, retrain_steps=5), train).run()
    steps = [0.75 * (1 - (1 - progress) ** 3) for progress in (0.25, 0.5, 0.75, 1.0)]
    assert [zeros[step] for step in (0, 5, 10, 15)] == pytest.approx(steps, abs=0.01)
    assert zeros == sorted(zeros)


def test_the_distance_to_the_dense_model() -> None:
    outputs = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
    assert float(distance(outputs, outputs, 4.0)) == pytest.approx(0)
    # At a high temperature it is half the variance of the differences.
    moved = torch.tensor([[0.0, 2.0, 3.0]], dtype=torch.float64)
    expected = np.var([1.0, 0.0, 0.0]) / 2
    assert float(distance(moved, outputs, 1e3)) == pytest.approx(expected, rel=1e-2)


def test_the_dense_model_teaches() -> None:
    teacher = perceptron()
    # The data say nothing: all there is to learn comes from the dense model.
    config = _config("one_shot", retrain_steps=60, distillation=1.0)

    def train(module: Any, step: int) -> Any:
        outputs = module(BATCHES[step][0])
        return 0 * outputs.sum(), outputs

    pupil = copy.deepcopy(teacher)

    def agreement(module: Any) -> float:
        return float((module(X).argmax(1) == teacher.eval()(X).argmax(1)).float().mean())

    trainer = _trainer(pupil, config, train, evaluate=agreement)
    trainer.run()
    assert trainer.scores["dense"] == 1
    assert trainer.scores["score"] > trainer.scores["cut"] + 0.1


@pytest.mark.parametrize(
    ("answer", "training", "words"),
    [
        (lambda: 3.0, {}, "found float"),
        (lambda: torch.ones(2, requires_grad=True), {}, "a tensor of one number"),
        (lambda: torch.tensor(float("nan"), requires_grad=True), {}, "a finite number; found nan"),
        (lambda: torch.ones((), requires_grad=True), {"distillation": 1.0}, "the loss alone"),
    ],
)
def test_a_loss_that_is_none_is_told(answer: Any, training: Any, words: str) -> None:
    trainer = _trainer(perceptron(), _config("one_shot", **training), lambda *_: answer())
    with pytest.raises(InputError, match=words):
        trainer.run()
