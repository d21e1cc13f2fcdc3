"""Batches that depend on nothing but a step's number, so that a run can go on anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tvm_fusionx.compress.prune.torch_layers import torch


class Batches:
    """Batches of tensors in an order that is drawn anew for each epoch.

    ``batches[step]`` is the same whenever it is asked for. A rest of an epoch is left out.

    Parameters
    ----------
    tensors
        Of equal length.
    size
        Samples a batch.
    seed
        Of the orders.
    """

    def __init__(self, *tensors: Any, size: int, seed: int = 0) -> None:
        self.tensors = tensors
        self.size = size
        self.seed = seed
        self._epoch = -1
        self._order: Any = None

    @property
    def steps(self) -> int:
        """Return the steps of an epoch."""
        return len(self.tensors[0]) // self.size

    def __getitem__(self, step: int) -> tuple[Any, ...]:
        epoch, place = divmod(step, self.steps)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(seed_of(self.seed, epoch))
            self._order = torch.randperm(len(self.tensors[0]), generator=generator)
            self._epoch = epoch
        chosen = self._order[place * self.size : (place + 1) * self.size]
        return tuple(tensor[chosen] for tensor in self.tensors)


class LoaderSteps:
    """A function of a step, made of a loader and a function of a batch.

    The loader is read anew each epoch, behind a seed that belongs to the epoch; a run that goes on
    within one reads over what came before.

    Parameters
    ----------
    loader
        What yields an epoch's batches, such as a ``torch.utils.data.DataLoader`` (without worker
        processes, or with a seed of its own).
    train_step
        ``train_step(model, batch)`` returns the loss, or the loss and the outputs.
    seed
        Of the epochs.
    """

    def __init__(self, loader: Any, train_step: Callable[[Any, Any], Any], seed: int = 0) -> None:
        self.loader = loader
        self.train_step = train_step
        self.seed = seed
        self.steps = len(loader)
        self._next = -1
        self._batches: Iterator[Any] = iter(())
        self._last: tuple[int, Any] = (-1, None)
        self._random: Any = None

    def __call__(self, model: Any, step: int) -> Any:
        """Return what `train_step` says of the batch of a step."""
        return self.train_step(model, self._batch(step))

    def _batch(self, step: int) -> Any:
        if step == self._last[0]:
            return self._last[1]  # the dense model is asked about the same batch
        epoch, place = divmod(step, self.steps)
        with torch.random.fork_rng(devices=[]):
            if step != self._next or place == 0:
                torch.manual_seed(seed_of(self.seed, epoch))
                self._batches = iter(self.loader)
                for _ in range(place):
                    next(self._batches)
                self._random = torch.get_rng_state()
            torch.set_rng_state(self._random)
            batch = next(self._batches)
            self._random = torch.get_rng_state()
        self._next = step + 1
        self._last = step, batch
        return batch


def seed_of(seed: int, number: int) -> int:
    """Return a seed for the part `number` of what is drawn with `seed`; any two differ."""
    return (seed << 31) + number
