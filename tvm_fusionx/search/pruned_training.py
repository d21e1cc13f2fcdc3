"""A candidate's weights are trained towards the zeros that its symbols ask for.

A user's training calls :func:`prune_and_retrain` with the second part of its steps. What happens
there is :mod:`tvm_fusionx.compress.prune`'s: cut at once, cut gradually, or pulled by ADMM, and
then trained with the zeros in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvm_fusionx.compress.prune.config import ADMM, GRADUAL, ONE_SHOT, PruneConfig, Training
from tvm_fusionx.compress.prune.structures import sparsity_of
from tvm_fusionx.compress.prune.trainer import Target, Trainer, TrainStep
from tvm_fusionx.search.pruned_layers import pruned_weights
from tvm_fusionx.search.space_file import PRUNING_METHOD
from tvm_fusionx.search.torch_network import TorchNetwork

# Of the steps: what leads weights to their zeros, before the rest is trained with the zeros fixed.
LEADING_SHARE = {ONE_SHOT: 0.0, GRADUAL: 0.5, ADMM: 0.5}
# Times that masks or projections are taken anew on the way.
UPDATES = 10


@dataclass(frozen=True)
class PrunedTraining:
    """What came of it.

    Attributes
    ----------
    method
        How weights were led to their zeros; empty where nothing is pruned.
    sparsity
        Share of zeros of each pruned weight, by name.
    """

    method: str
    sparsity: Mapping[str, float]

    @property
    def details(self) -> dict[str, Any]:
        """Return plain values for what a training returns."""
        if not self.method:
            return {}
        return {"method": self.method, "sparsity": float(np.mean(list(self.sparsity.values())))}


def method_of(candidate: Mapping[str, Any]) -> str:
    """Return how a candidate's weights come to their zeros; ``one_shot`` where that is not open."""
    return str(candidate["choices"].get(PRUNING_METHOD, ONE_SHOT))


def targets_of(candidate: Mapping[str, Any], network: TorchNetwork) -> list[Target]:
    """Return the weights of a candidate's network that are to get zeros."""
    return [
        Target(weight.layout, network.get_parameter(weight.layout.name), weight.structure)
        for weight in pruned_weights(candidate)
    ]


def prune_and_retrain(
    candidate: Mapping[str, Any],
    network: TorchNetwork,
    train: TrainStep,
    steps: int,
    training: Training | None = None,
    stage: Callable[[str], None] = lambda text: None,
) -> PrunedTraining:
    """Give a network's weights the zeros of its candidate, and train it for so many steps.

    A candidate without pruning is trained for as many steps, so that all cost the same.

    Parameters
    ----------
    candidate
        Says where zeros are, how many, and by which method.
    network
        Its module, trained before; changed in place.
    train
        ``train(network, step)`` returns the loss of a batch, a tensor of one number.
    steps
        Steps of all that is done here, 1 at least.
    training
        Optimizer, learning rate, seed and the like; method and steps are set here.
    stage
        Told what is done.

    Raises
    ------
    ValueError
        There are no steps.
    InputError
        `train` returned no loss, or one that is not finite.
    """
    if steps < 1:
        raise ValueError(f"steps: expected 1 at least; found {steps}. Allow some training.")
    targets = targets_of(candidate, network)
    method = method_of(candidate) if targets else ONE_SHOT
    leading = int(steps * LEADING_SHARE[method])
    chosen = replace(
        training or Training(),
        method=method,
        prune_steps=leading,
        retrain_steps=steps - leading,
        update_every=max(1, leading // UPDATES),
    )
    config = PruneConfig(training=chosen)
    Trainer(network, targets, config, train, None, None, False, stage).run()
    network.eval()
    found = {t.layout.name: sparsity_of(t.parameter.detach().numpy()) for t in targets}
    return PrunedTraining(method if targets else "", found)
