"""Blocks that many networks share are trained once, and networks are put together of them.

After Wootz (Guan et al., 2019): the networks to be explored are sequences of layer symbols, a
grammar of all of them (:mod:`tvm_fusionx.search.sequitur`) has what they share as rules, and the
rules that save most are trained first, each to do what the same layers of a teacher do. A network
that is put together of trained blocks begins where others are after epochs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tvm_fusionx.search.networks import Layer, layers_of, name_of, run_layers
from tvm_fusionx.search.sequitur import START, expansions, sequitur
from tvm_fusionx.search.space import Candidate
from tvm_fusionx.search.torch_network import TorchNetwork, TorchOps, held_by

Placed = tuple[int, str]
"""A layer's place in its network, and its symbol: a teacher has one layer for each place."""


@dataclass(frozen=True)
class SharedBlock:
    """Layers in a row that several networks have at the same places.

    Attributes
    ----------
    first
        Place of the first layer.
    layers
        The layers.
    uses
        How many of the networks have them.
    """

    first: int
    layers: tuple[Layer, ...]
    uses: int

    @property
    def placed(self) -> tuple[Placed, ...]:
        """Return the block as symbols."""
        return tuple((self.first + n, layer.symbol) for n, layer in enumerate(self.layers))

    @property
    def saves(self) -> int:
        """Return how many trainings of a layer it saves."""
        return (self.uses - 1) * len(self.layers)


def shared_blocks(
    candidates: Sequence[Mapping[str, Any]], teacher: Mapping[str, Any], most: int = 8
) -> list[SharedBlock]:
    """Return the blocks that are worth training first, the one that saves most first.

    Parameters
    ----------
    candidates
        The networks to be explored.
    teacher
        The network that the blocks learn from. Layers that it has itself need no training, and
        those that do not fit between the teacher's neighbours cannot learn from it.
    most
        How many blocks.
    """
    rows = [layers_of(candidate) for candidate in candidates]
    teachers = layers_of(teacher)
    sequence: list[Hashable] = []
    known: dict[Placed, Layer] = {}
    for number, layers in enumerate(rows):
        for place, layer in enumerate(layers):
            known[place, layer.symbol] = layer
            learns = _learns(layers, teachers, place)
            # What cannot be learned stands apart, so that no rule has it.
            sequence.append((place, layer.symbol) if learns else ("apart", number, place))
        sequence.append(("end", number))
    found: dict[tuple[Placed, ...], None] = {}
    for rule, symbols in expansions(sequitur(sequence)).items():
        placed = tuple(each for each in symbols if each in known)
        if rule != START and len(placed) == len(symbols):
            found[placed] = None
    # A layer alone is no rule, and may be shared by many all the same.
    for each in sequence:
        if each in known:
            found[(each,)] = None
    blocks = []
    for placed in found:
        first = placed[0][0]
        layers = tuple(known[each] for each in placed)
        uses = sum(row[first : first + len(layers)] == layers for row in rows)
        if uses > 1:
            blocks.append(SharedBlock(first, layers, uses))
    blocks.sort(key=lambda block: (-block.saves, block.first, block.placed))
    return blocks[:most]


def _learns(layers: Sequence[Layer], teachers: Sequence[Layer], place: int) -> bool:
    """Tell whether a layer can do what the teacher's at its place does, and does not yet."""
    if len(layers) != len(teachers) or layers[place] == teachers[place]:
        return False
    return layers[place].outside == teachers[place].outside


@dataclass(frozen=True)
class TrainedBlock:
    """A block that learned from a teacher.

    Attributes
    ----------
    block
        The block.
    arrays
        Its weights, by their names in any network that has it.
    seconds
        What the training took.
    first_loss, last_loss
        Mean squared difference from the teacher's activations, before and after.
    """

    block: SharedBlock
    arrays: Mapping[str, np.ndarray]
    seconds: float
    first_loss: float
    last_loss: float


def train_block(
    block: SharedBlock,
    teacher: TorchNetwork,
    batches: Iterable[torch.Tensor],
    *,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> TrainedBlock:
    """Train a block to give what the teacher's layers at its places give.

    Parameters
    ----------
    teacher
        A whole network that was trained.
    batches
        Inputs of the teacher, one training step each; labels are not needed.
    """
    began = time.perf_counter()
    teacher.eval()
    stop = block.first + len(block.layers)
    below = _part(teacher, 0, block.first)
    inside = _part(teacher, block.first, stop)
    student: TorchNetwork | None = None
    losses: list[float] = []
    for batch in batches:
        with torch.no_grad():
            x = below(batch)
            expected = inside(x)
        if student is None:
            student = TorchNetwork(block.layers, x.to("meta"), seed, block.first)
            optimiser = torch.optim.Adam(student.parameters(), learning_rate)
        optimiser.zero_grad()
        loss = functional.mse_loss(student(x), expected)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    if student is None:
        raise ValueError("batches: expected one batch at least; found none. Give some inputs.")
    seconds = time.perf_counter() - began
    return TrainedBlock(block, student.arrays(), seconds, losses[0], losses[-1])


def _part(network: TorchNetwork, start: int, stop: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what some layers of a network do, as they are."""
    ops = TorchOps(held_by(network), training=False)
    layers = network.layers[start:stop]
    return lambda x: run_layers(layers, ops, x, start)


@dataclass(frozen=True)
class Assembled:
    """A network put together of what was trained.

    Attributes
    ----------
    network
        The module, to be trained to its end.
    from_teacher, from_blocks, fresh
        How many of its layers came from where.
    """

    network: TorchNetwork
    from_teacher: int
    from_blocks: int
    fresh: int


def assemble(
    candidate: Candidate,
    network: TorchNetwork,
    teacher: TorchNetwork,
    blocks: Sequence[TrainedBlock],
) -> Assembled:
    """Put trained weights into a fresh network of a candidate.

    The teacher's layers are taken where the network has the same at the same place, then blocks,
    those that save most first; what is left stays as it is.
    """
    layers = layers_of(candidate)
    arrays = network.arrays()
    taken: dict[int, str] = {}
    if len(layers) == len(teacher.layers):
        known = teacher.arrays()
        for place, (own, other) in enumerate(zip(layers, teacher.layers, strict=True)):
            if own == other:
                taken[place] = "teacher"
                _take(arrays, known, place)
    for trained in sorted(blocks, key=lambda each: -each.block.saves):
        first, length = trained.block.first, len(trained.block.layers)
        places = range(first, first + length)
        is_free = not any(place in taken for place in places)
        if is_free and layers[first : first + length] == trained.block.layers:
            for place in places:
                taken[place] = "block"
                _take(arrays, trained.arrays, place)
    network.load_arrays(arrays)
    kinds = list(taken.values())
    counts = kinds.count("teacher"), kinds.count("block"), len(layers) - len(taken)
    return Assembled(network, *counts)


def _take(arrays: dict[str, np.ndarray], known: Mapping[str, np.ndarray], place: int) -> None:
    name = name_of(place)
    for parameter, values in known.items():
        if parameter.startswith(f"{name}_"):
            arrays[parameter] = values


def saved_seconds(blocks: Iterable[TrainedBlock]) -> float:
    """Return what training each block once saves over training it for each network that has it."""
    return sum((trained.block.uses - 1) * trained.seconds for trained in blocks)
