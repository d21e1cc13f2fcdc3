"""Which weights of a candidate are pruned, in which structure, and its model with their zeros.

A layer's symbol (``block16x1:0.75``) becomes a structure of :mod:`tvm_fusionx.compress.prune` for
each of its products. Who trains asks for layouts and structures; the compiler is given a model
whose weights have as many zeros at places of the same kind, so that its sparse kernels are timed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tvm_fusionx.compress.prune.layouts import CONV, LINEAR, Layout
from tvm_fusionx.compress.prune.structures import BLOCK as BLOCK_KIND
from tvm_fusionx.compress.prune.structures import GROUP_SIZE, PATTERN, Structure
from tvm_fusionx.search.networks import input_of, layers_of, names_of, run_layers
from tvm_fusionx.search.space_file import BLOCK, FILTER, NO_PRUNING, pruning_of

# More columns than any layer has: a tile of whole rows.
WHOLE_ROWS = 1 << 40
# Masks of models that nobody trained are those of weights drawn from this seed, whatever the place.
MASK_SEED = 0


@dataclass(frozen=True)
class PrunedWeight:
    """A weight that is to get zeros.

    Attributes
    ----------
    layout
        How its array is to be read; its name is the parameter's.
    structure
        Where the zeros may be, and how many.
    """

    layout: Layout
    structure: Structure


def structure_of(symbol: str) -> Structure | None:
    """Return the structure that a symbol of a space stands for; None for ``none``.

    Filters are cut in groups of as many as fill a vector of 512 bits: a group that is cut leaves
    its vector out, and filters that are cut here and there leave out nothing.
    """
    scheme, rate = pruning_of(symbol)
    if scheme == NO_PRUNING:
        return None
    if scheme == FILTER:
        return Structure(BLOCK_KIND, rate, block_size=(GROUP_SIZE, WHOLE_ROWS))
    if scheme == PATTERN:
        return Structure(PATTERN, rate)
    rows, _, columns = scheme.removeprefix(BLOCK).partition("x")
    return Structure(BLOCK_KIND, rate, block_size=(int(rows), int(columns)))


def pruned_weights(candidate: Mapping[str, Any]) -> tuple[PrunedWeight, ...]:
    """Return the weights of a candidate that its symbols prune, first to last.

    Windows of one channel (depthwise) stay dense, as do kernels of one entry where patterns are
    asked for: there is no structure for them.
    """
    layers = layers_of(candidate)
    symbols = {name: layer.pruning for name, layer in zip(names_of(layers), layers, strict=True)}
    found = []
    for name, layout in _noted(candidate):
        structure = structure_of(symbols[name])
        is_depthwise = layout.kind == CONV and layout.shape[1] == 1 and layout.parts > 1
        if structure is None or is_depthwise:
            continue
        if structure.why_not(layout.canonical_shape) is None:
            found.append(PrunedWeight(layout, structure))
    return tuple(found)


def layouts_of(candidate: Mapping[str, Any]) -> tuple[Layout, ...]:
    """Return how the weights of a candidate's products lie, first to last, pruned or not."""
    return tuple(layout for _, layout in _noted(candidate))


def _noted(candidate: Mapping[str, Any]) -> list[tuple[str, Layout]]:
    """Return each product's layer and layout."""
    noted = _Notes()
    run_layers(layers_of(candidate), noted, input_of(candidate))
    return noted.layouts


def kept_weights(candidate: Mapping[str, Any]) -> tuple[float, float]:
    """Return how many weights of a candidate's products are no zeros, and how many there are."""
    cut = {w.layout.name: w.structure.target_sparsity for w in pruned_weights(candidate)}
    sizes = {layout.name: math.prod(layout.shape) for layout in layouts_of(candidate)}
    kept = sum(size * (1 - cut.get(name, 0.0)) for name, size in sizes.items())
    return kept, float(sum(sizes.values()))


def prune_model(model: onnx.ModelProto, candidate: Mapping[str, Any]) -> onnx.ModelProto:
    """Return a candidate's model of random weights with the zeros that its symbols ask for.

    Equal weights get equal zeros, whatever their place: so equal layers become equal kernels.
    """
    pruned = onnx.ModelProto()
    pruned.CopyFrom(model)
    tensors = {tensor.name: tensor for tensor in pruned.graph.initializer}
    for weight in pruned_weights(candidate):
        name = weight.layout.name
        kept = _random_mask(
            weight.layout.shape,
            weight.layout.parts,
            weight.layout.inputs_first,
            weight.structure,
        )
        array = np.where(kept, numpy_helper.to_array(tensors[name]), np.float32(0))
        tensors[name].CopyFrom(numpy_helper.from_array(array, name))
    return pruned


@lru_cache(maxsize=256)
def _random_mask(
    shape: tuple[int, ...], parts: int, inputs_first: bool, structure: Structure
) -> np.ndarray:
    layout = Layout("", CONV, shape, parts, 0, inputs_first)
    drawn = np.random.default_rng(MASK_SEED).standard_normal(shape, dtype=np.float32)
    return layout.restored(structure.mask(layout.canonical(drawn), parts))


class _Notes:
    """The operators of :class:`tvm_fusionx.search.networks.Ops`, which note weights alone."""

    layer = ""

    def __init__(self) -> None:
        self.layouts: list[tuple[str, Layout]] = []

    def dense(self, x: Any, name: str, inputs: int, outputs: int) -> None:
        """Note a product."""
        layout = Layout(f"{name}_weight", LINEAR, (inputs, outputs), inputs_first=True)
        self.layouts.append((self.layer, layout))

    def convolution(
        self,
        x: Any,
        name: str,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
    ) -> None:
        """Note a convolution."""
        shape = (outputs, inputs // groups, kernel, kernel)
        self.layouts.append((self.layer, Layout(f"{name}_weight", CONV, shape, parts=groups)))

    def __getattr__(self, name: str) -> Any:
        """Return an operator without weights of this kind."""
        return lambda *operands: None
