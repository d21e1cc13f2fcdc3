"""One set of weights for all networks of a space: a fast answer to what a network is worth.

After single path one-shot search (Guo et al., 2020): the weights are those of the largest network,
a smaller one takes the leading part of each, and every step of the training is of a network by
chance. To judge a network is then to run it. Accuracies are lower than those of networks that are
trained alone; what they are good for is to tell better networks from worse.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from tvm_fusionx.errors import SpaceError
from tvm_fusionx.search.executor import Ended, Job
from tvm_fusionx.search.networks import Layer, layers_of, name_of, run_layers
from tvm_fusionx.search.space import Candidate, Option, Space
from tvm_fusionx.search.space_file import NO_PRUNING
from tvm_fusionx.search.torch_network import BUFFERS, TorchOps, torch_network

Network = Callable[[torch.Tensor], torch.Tensor]
"""Returns the logits of a batch."""


def largest(space: Space) -> Candidate:
    """Return the network with the largest number of every decision, and the first word."""

    def pick(name: str, options: tuple[Option, ...]) -> Option:
        numbers = [option for option in options if isinstance(option, int)]
        return max(numbers) if numbers else options[0]

    return space.walk(pick)


class SharedWeights(nn.Module):
    """The weights of a space's largest network, of which every other takes a part.

    Layers of one kind share by their place among that kind, so that the last layer is one for all
    depths.

    Parameters
    ----------
    space
        The networks.
    seed
        Of the initial weights.

    Raises
    ------
    SpaceError
        The networks have batch normalisation, whose statistics cannot be shared.
    """

    def __init__(self, space: Space, seed: int = 0) -> None:
        super().__init__()
        self.space = space
        candidate = largest(space)
        network = torch_network(candidate, seed)
        if set(network.kinds.values()) & set(BUFFERS):
            raise SpaceError(
                "shared weights",
                expected="networks without batch normalisation",
                found=f"family {space.family}",
                next_step="Train its candidates one by one.",
            )
        roles = _roles(network.layers)
        for name, value in network.named_parameters():
            self.register_parameter(_shared_name(name, roles), nn.Parameter(value.detach()))

    def network(self, candidate: Mapping[str, Any]) -> Network:
        """Return what runs a candidate on these weights; gradients reach them.

        Raises
        ------
        SpaceError
            The candidate is not of the space, or is pruned.
        """
        self.space.check(candidate)
        layers = layers_of(candidate)
        pruned = sorted({layer.pruning for layer in layers} - {NO_PRUNING})
        if pruned:
            raise SpaceError(
                "candidate on shared weights",
                expected="no pruning: zeros of one network are weights of another",
                found=pruned[0],
                next_step="Search the architecture first, or train its candidates one by one.",
            )
        ops = TorchOps(_Slices(self, _roles(layers)), False)

        def run(x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = run_layers(layers, ops, x)
            return result

        return run

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all weights as arrays by name."""
        return {name: value.detach().numpy().copy() for name, value in self.state_dict().items()}

    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take weights by name, all of them; RuntimeError where one is missing or of no use."""
        self.load_state_dict({name: torch.from_numpy(value) for name, value in arrays.items()})


def train_shared(
    shared: SharedWeights,
    loss_of: Callable[[Network, int], torch.Tensor],
    steps: int,
    *,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.01,
    seed: int = 0,
) -> list[float]:
    """Train shared weights, a network by chance each step, and return the losses.

    Parameters
    ----------
    loss_of
        Returns the loss of a network at a step.
    steps
        How many.
    learning_rate, weight_decay
        AdamW's; the rate rises and falls once (one-cycle).
    seed
        Of the networks that are drawn.
    """
    generator = random.Random(seed)
    optimiser = torch.optim.AdamW(shared.parameters(), learning_rate, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, learning_rate, total_steps=steps + 1)
    losses = []
    for step in range(steps):
        loss = loss_of(shared.network(shared.space.sample(generator)), step)
        # Layers that this network has not get no gradient, and stay as they are.
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    return losses


class SharedExecutor:
    """Judges candidates on shared weights in this process: an executor without trainings.

    A candidate that was judged before, by any search, is not judged again.

    Parameters
    ----------
    shared
        The weights, trained.
    judge
        Returns the accuracy of a network, between 0 and 1.
    """

    workers = 1

    def __init__(self, shared: SharedWeights, judge: Callable[[Network], float]) -> None:
        self.shared, self.judge = shared, judge
        self._known: dict[str, float] = {}

    def run(self, jobs: Sequence[Job], on_start: Callable[[Job], None]) -> Iterator[Ended]:
        """Yield the accuracy of each job's candidate."""
        for job in jobs:
            on_start(job)
            began = time.perf_counter()
            symbols = " | ".join(layer.symbol for layer in layers_of(job.candidate))
            try:
                if symbols not in self._known:
                    with torch.no_grad():
                        network = self.shared.network(job.candidate)
                        self._known[symbols] = float(self.judge(network))
            except Exception as error:  # what a user's function raises is the trial's reason
                yield Ended(job.number, reason=f"{type(error).__name__}: {error}")
                continue
            seconds = time.perf_counter() - began
            yield Ended(job.number, {"accuracy": self._known[symbols], "seconds": seconds})


class _Slices:
    """Finds the leading part of shared weights that a layer of a candidate takes."""

    def __init__(self, shared: SharedWeights, roles: Mapping[str, str]) -> None:
        self.shared, self.roles = shared, roles

    def __call__(self, name: str, shape: tuple[int, ...], kind: str) -> torch.Tensor:
        found: torch.Tensor = getattr(self.shared, _shared_name(name, self.roles))
        return found[tuple(slice(0, size) for size in shape)]


def _roles(layers: Sequence[Layer]) -> dict[str, str]:
    """Return for the name of each layer what it is called in shared weights."""
    counts: dict[str, int] = {}
    roles = {}
    for place, layer in enumerate(layers):
        number = counts.get(layer.kind, 0)
        counts[layer.kind] = number + 1
        roles[name_of(place)] = f"{layer.kind}{number}"
    return roles


def _shared_name(name: str, roles: Mapping[str, str]) -> str:
    layer, _, rest = name.partition("_")
    return f"{roles[layer]}_{rest}"
