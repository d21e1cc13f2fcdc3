"""Train a candidate of a transformer space on 20 Newsgroups: what `fusionx search --train` runs.

The environment names the data (``NEWSGROUPS``, a file that ``newsgroups.py`` wrote) and how many
epochs the whole training has (``EPOCHS``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tvm_fusionx.search.torch_network import torch_network

BATCH = 32
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 0.01
# Of the documents to train with, kept apart to judge candidates by; the test part is for winners.
VALIDATION = 0.1
# Words are left out at random, or small networks learn the documents by heart.
LEFT_OUT = 0.15
OTHER = 1


def train(candidate: dict[str, Any], trial: dict[str, Any]) -> dict[str, Any]:
    """Train a share of all epochs, and return the accuracy on what was kept apart."""
    torch.manual_seed(trial["seed"])
    with np.load(os.environ["NEWSGROUPS"], allow_pickle=False) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    tokens = candidate["fixed"]["tokens"]
    kept, used = parts(len(arrays["train_ids"]))
    ids, labels = arrays["train_ids"][:, :tokens], arrays["train_labels"]
    network = torch_network(candidate, trial["seed"])
    epochs = max(1.0, float(os.environ.get("EPOCHS", "6")) * trial["share"])
    steps = int(epochs * len(used) / BATCH)
    optimiser = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=steps + 1)
    for step in range(steps):
        chosen = used[torch.randint(len(used), (BATCH,))]
        batch = leave_words_out(ids[chosen])
        loss = functional.cross_entropy(network(batch), labels[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step} of {steps}: loss {loss.item():.3f}", flush=True)
    network.eval()
    folder = Path(trial["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "weights.npz", **network.arrays())
    return {
        "accuracy": accuracy(network, ids[kept], labels[kept]),
        "test_accuracy": accuracy(network, arrays["test_ids"][:, :tokens], arrays["test_labels"]),
        "steps": steps,
    }


def parts(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the numbers of the documents that judge, and of those to train with."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    kept = int(count * VALIDATION)
    return order[:kept], order[kept:]


def leave_words_out(ids: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
    """Return documents with some words, by chance, as words that are not known."""
    chance = torch.rand(ids.shape, generator=generator)
    return torch.where((chance < LEFT_OUT) & (ids > OTHER), OTHER, ids)


def accuracy(
    network: Callable[[torch.Tensor], torch.Tensor], ids: torch.Tensor, labels: torch.Tensor
) -> float:
    """Return the share of documents that a network names rightly."""
    with torch.no_grad():
        found = torch.cat([network(part).argmax(1) for part in ids.split(256)])
    return (found == labels).float().mean().item()
