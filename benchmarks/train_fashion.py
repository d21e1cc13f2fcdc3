"""Train a candidate of a CNN space on Fashion-MNIST: what ``search_images.py`` runs.

The environment names steps of the whole training (``STEPS``, 600 by default) and pictures
(``IMAGES``, 30000). A pruned network learns dense for half of its steps, so all cost the same. Of
the training pictures the last fifth judges candidates; the 10,000 kept apart are told as
``test_accuracy`` and decide nothing. A network begins with the weights that the one of ``parent``
has for it; where it has all, a pruned one learns no more before it is pruned. ``fusionx search
--train`` takes this file too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fashion_networks
import numpy as np
import torch
from torch.nn import functional

from tvm_fusionx.compress.prune.batches import Batches, seed_of
from tvm_fusionx.compress.prune.config import Training
from tvm_fusionx.compress.prune.schedules import learning_rate
from tvm_fusionx.search.pruned_layers import pruned_weights
from tvm_fusionx.search.pruned_training import prune_and_retrain
from tvm_fusionx.search.torch_network import TorchNetwork, torch_network

BATCH = 64
LEARNING_RATE = 4e-3
# Weights that have learned before are led to their zeros with less.
RETRAINING_RATE = 2e-3
WEIGHT_DECAY = 5e-4
WARM_UP = 0.1
JUDGING = 0.2
# Of all steps: what a pruned network gets before it is pruned.
DENSE_SHARE = 0.5


def train(candidate: dict[str, Any], trial: dict[str, Any]) -> dict[str, Any]:
    """Train a share of all steps, pruned where the candidate is, and return the accuracy."""
    torch.set_num_threads(1)
    count = int(os.environ.get("IMAGES", "30000"))
    x, y = map(torch.from_numpy, fashion_networks.pictures("train", count))
    kept = int(len(x) * JUDGING)
    batches = Batches(x[:-kept], y[:-kept], size=BATCH, seed=trial["seed"])
    network = torch_network(candidate, trial["seed"])
    steps = max(2, round(int(os.environ.get("STEPS", "600")) * trial["share"]))
    is_pruned = bool(pruned_weights(candidate))
    inherited = inherit(network, trial.get("parent"))
    dense_share = 0.0 if inherited == 1.0 else DENSE_SHARE
    dense_steps = int(steps * dense_share) if is_pruned else steps

    def loss_of(module: Any, step: int) -> Any:
        pictures, labels = batches[step]
        generator = torch.Generator().manual_seed(seed_of(trial["seed"], step))
        is_mirrored = torch.rand(len(pictures), generator=generator) < 0.5
        pictures[is_mirrored] = pictures[is_mirrored].flip(-1)
        return functional.cross_entropy(module(pictures), labels)

    _train_dense(network, loss_of, dense_steps)
    found: dict[str, Any] = {}
    if is_pruned:
        training = Training(
            learning_rate=RETRAINING_RATE,
            weight_decay=WEIGHT_DECAY,
            warm_up=WARM_UP,
            seed=trial["seed"],
        )
        found = prune_and_retrain(
            candidate,
            network,
            lambda module, step: loss_of(module, dense_steps + step),
            steps - dense_steps,
            training,
        ).details
    network.eval()
    folder = Path(trial["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "weights.npz", **network.arrays())
    apart = map(torch.from_numpy, fashion_networks.pictures("t10k", count))
    return {
        "accuracy": accuracy(network, x[-kept:], y[-kept:]),
        "test_accuracy": accuracy(network, *apart),
        "steps": steps,
        "inherited": inherited,
        **found,
    }


def inherit(network: TorchNetwork, parent: str | None) -> float:
    """Give a network the weights of a trained one, and return their share of all of its own."""
    if parent is None:
        return 0.0
    with np.load(Path(parent) / "weights.npz", allow_pickle=False) as file:
        return network.inherit({name: file[name] for name in file.files})


def _train_dense(network: TorchNetwork, loss_of: Any, steps: int) -> None:
    optimiser = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    network.train()
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, steps, LEARNING_RATE, WARM_UP)
        optimiser.zero_grad()
        loss = loss_of(network, step)
        loss.backward()
        optimiser.step()
        if step % 100 == 0:
            print(f"step {step} of {steps}: loss {loss.item():.3f}", flush=True)


def accuracy(network: TorchNetwork, x: torch.Tensor, y: torch.Tensor) -> float:
    """Return the share of pictures that a network names rightly."""
    with torch.no_grad():
        found = torch.cat([network(part).argmax(1) for part in x.split(500)])
    return (found == y).float().mean().item()
