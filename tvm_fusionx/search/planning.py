"""A candidate as the compiler plans it: every block by its structural hash, and of which layer.

Planning a whole network takes seconds, and most networks of a space are made of layers that were
planned before, beside the same neighbours. So what a plan says of each layer is kept under the
layer's context: its symbol, and what its two neighbours show of themselves. A candidate whose
contexts are all known is put together of them; where two plans disagree on a context, it is never
used again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
from tvm import relay

from tvm_fusionx.build.pipeline import phases
from tvm_fusionx.ecg import Graph
from tvm_fusionx.ecg.fold import fold_constants
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.frontend.from_onnx import from_onnx
from tvm_fusionx.fusion import plan
from tvm_fusionx.fusion.block_key import block_keys, signature
from tvm_fusionx.fusion.border import border_of
from tvm_fusionx.passes.graph_pass import transform_graphs
from tvm_fusionx.processors.targets import TargetLike
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.search.networks import Layer, layers_of, names_of
from tvm_fusionx.search.onnx_network import onnx_network
from tvm_fusionx.search.pruned_layers import prune_model
from tvm_fusionx.search.space_file import NO_PRUNING

FUSE = "fuse"
# What a context says where a layer is the first or the last.
NOTHING = "-"

Prune = Callable[[onnx.ModelProto, Mapping[str, Any]], onnx.ModelProto]
"""Makes of a candidate's model the pruned one that its symbols ask for."""


@dataclass(frozen=True)
class BlockUse:
    """One kernel of a candidate.

    Attributes
    ----------
    key
        Structural hash of the block: equal kernels have one.
    signature
        The block for people.
    """

    key: str
    signature: str


@dataclass(frozen=True)
class PlannedBlock:
    """A block that can be built and timed: its calls in the graph that was planned."""

    use: BlockUse
    graph: Graph = field(compare=False, repr=False)
    nodes: tuple[Node, ...] = field(compare=False, repr=False)


@dataclass(frozen=True)
class CandidatePlan:
    """The kernels of a candidate, layer by layer.

    Attributes
    ----------
    layers
        For each layer its kernels.
    blocks
        What can be built, by key; empty where the plan was put together of known contexts.
    """

    layers: tuple[tuple[BlockUse, ...], ...]
    blocks: Mapping[str, PlannedBlock] = field(default_factory=dict, compare=False)

    @property
    def uses(self) -> list[BlockUse]:
        """Return all kernels, layer after layer."""
        return [use for layer in self.layers for use in layer]

    @property
    def is_composed(self) -> bool:
        """Tell whether nothing was planned for it."""
        return not self.blocks


def contexts_of(layers: Sequence[Layer]) -> list[str]:
    """Return for each layer all that its plan should depend on: itself, and what is beside it."""
    beside = [NOTHING, *(layer.outside for layer in layers), NOTHING]
    return [
        f"{before} | {layer.symbol} | {after}"
        for before, layer, after in zip(beside, layers, beside[2:], strict=False)
    ]


class CandidatePlanner:
    """Plans candidates for one target as ``fx.build`` would, each context once.

    Parameters
    ----------
    target
        What they are planned for.
    prune
        Makes pruned models.

    Attributes
    ----------
    contexts
        Kernels of a layer by its context; None where two plans disagree.
    planned
        How many candidates were planned as a whole.
    """

    def __init__(self, target: TargetLike, prune: Prune = prune_model) -> None:
        self.target = resolve_target(target)
        self.prune = prune
        self.contexts: dict[str, tuple[BlockUse, ...] | None] = {}
        self.planned = 0
        order = phases(self.target)
        before = order.names[: order.names.index(FUSE)]
        self._passes = [each for name in before for each in order.phase(name).passes]
        # One set of options for all plans: it remembers which blocks the templates serve.
        self._options = order.phase(FUSE).passes[0].planner_options()

    def plan(self, candidate: Mapping[str, Any], *, whole: bool = False) -> CandidatePlan:
        """Return the kernels of a candidate.

        Parameters
        ----------
        whole
            Whether to plan it even where all its contexts are known.
        """
        contexts = contexts_of(layers_of(candidate))
        if not whole:
            known = [self.contexts.get(context) for context in contexts]
            if all(each is not None for each in known):
                return CandidatePlan(tuple(each for each in known if each is not None))
        made = self._plan(candidate)
        self.planned += 1
        for context, uses in zip(contexts, made.layers, strict=True):
            if self.contexts.setdefault(context, uses) != uses:
                self.contexts[context] = None
        return made

    def model(self, candidate: Mapping[str, Any]) -> onnx.ModelProto:
        """Return the model that is planned, with random weights and its layers' zeros."""
        layers = layers_of(candidate)
        model = onnx_network(candidate)
        if all(layer.pruning == NO_PRUNING for layer in layers):
            return model
        return self.prune(model, candidate)

    def _plan(self, candidate: Mapping[str, Any]) -> CandidatePlan:
        mod, _ = from_onnx(self.model(candidate))
        for each in self._passes:
            mod = each(mod)
        names = names_of(layers_of(candidate))
        found: list[CandidatePlan] = []

        def cut(name: str, graph: Graph) -> relay.Function | None:
            fold_constants(graph)
            found.append(_read(graph, self._options, names))
            return None

        transform_graphs(mod, cut)
        (made,) = found
        return made


def _read(graph: Graph, options: Any, names: Sequence[str]) -> CandidatePlan:
    made = plan(graph, options)
    layers: dict[str, list[BlockUse]] = {name: [] for name in names}
    blocks: dict[str, PlannedBlock] = {}
    outputs = frozenset(graph.outputs)
    # What the compiler itself put in bears no name: it belongs to what comes after.
    nameless: list[BlockUse] = []
    layer = names[0]
    for key, block in zip(block_keys(made), made.blocks, strict=True):
        if block.is_reshape_only:
            continue
        use = BlockUse(key, signature(block.nodes, border_of(graph, block.nodes, outputs)))
        blocks.setdefault(key, PlannedBlock(use, graph, block.nodes))
        of = [name.partition("/")[0] for name in block.node_names]
        known = [name for name in of if name in layers]
        if not known:
            nameless.append(use)
            continue
        layer = known[-1]
        layers[layer] += [*nameless, use]
        nameless.clear()
    layers[layer] += nameless
    return CandidatePlan(tuple(tuple(layers[name]) for name in names), blocks)
