"""Each product of a model: the structure of its zeros, estimates, and what was chosen and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.build.pipeline import phases
from tvm_fusionx.ecg import from_relay
from tvm_fusionx.layout import pack_convolutions
from tvm_fusionx.layout.sparse import (
    PRODUCTS,
    Choice,
    break_even_density,
    choose,
    judge,
    layer_of,
    why_not_sparse,
)
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.processors.gpu import Gpu, describe_gpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.sparse import csr_bytes, pretend_pruned, store_lists
from tvm_fusionx.sparse.filters import store_filters

# Of the order of passes, what runs before layouts are chosen.
BEHIND = ("layout", "fuse", "precision", "float32", "textures")


@dataclass(frozen=True)
class LayerSparsity:
    """What was found of one product.

    Attributes
    ----------
    name, operator
        Of its node.
    channels, length, places
        Rows and columns of its weight as a matrix, and places of its result, each with all
        channels.
    is_sparse, reason
        What was chosen, and why a layer stays dense.
    density
        Share of the weight that is not zero; None where it was not looked at.
    group, effective_density
        Channels of a group, 1 where zeros are left out one by one, and the share of the weight that
        is multiplied then.
    dense_cycles, sparse_cycles
        Estimates on all cores; of the dense product the fastest way. Of a GPU, multiply-adds or
        loads of both, whichever fall less.
    break_even_density
        Share of columns in each list at which both take the same.
    dense_bytes, sparse_bytes, csr_bytes
        Of the weight, as it is stored; of compressed rows, for comparison.
    dense_us, sparse_us
        Medians, where they were measured.
    """

    name: str
    operator: str
    channels: int
    length: int
    places: int
    is_sparse: bool
    reason: str | None
    density: float | None = None
    group: int | None = None
    effective_density: float | None = None
    dense_cycles: float | None = None
    sparse_cycles: float | None = None
    break_even_density: float | None = None
    dense_bytes: int | None = None
    sparse_bytes: int | None = None
    csr_bytes: int | None = None
    dense_us: float | None = None
    sparse_us: float | None = None

    @property
    def gain(self) -> float | None:
        """How many times faster the sparse product should be."""
        if self.dense_cycles is None or self.sparse_cycles is None:
            return None
        return self.dense_cycles / self.sparse_cycles

    def as_json(self) -> dict[str, Any]:
        """Return all of it by name, what is not known left out."""
        told = {**asdict(self), "gain": self.gain}
        return {name: value for name, value in told.items() if value is not None}


def layers_of(
    mod: Any, target: Any, params: Any = None, rate: float | None = None
) -> Iterator[tuple[LayerSparsity, Choice | None]]:
    """Give what was found of each product of a module's ``main``, in order.

    Parameters
    ----------
    mod, params
        An imported model.
    target
        A CPU, or OpenCL.
    rate
        Judge weights as if pruning had left one number of so many, in groups as wide as a vector;
        None takes them as they are.
    """
    resolved = resolve_target(target)
    cpu = describe_cpu(resolved) if is_cpu(resolved) else describe_gpu(resolved)
    order = phases(resolved).without(*BEHIND).sequential("tvm_fusionx.report.sparsity")
    graph = from_relay(order(bind_parameters(mod, params))["main"])
    pack_convolutions(graph, cpu, fill=is_cpu(resolved))
    for node in graph.calls():
        if node.op in PRODUCTS:
            found = choose(node, cpu) if rate is None else _pretended(node, cpu, rate)
            yield _told(node, found, cpu), found if isinstance(found, Choice) else None


def _pretended(node: Any, cpu: Cpu | Gpu, rate: float) -> Choice | str:
    reason = why_not_sparse(node, cpu)
    if reason is not None:
        return reason
    layer = layer_of(node, cpu)
    matrix = pretend_pruned(layer.matrix, layer.lanes, rate, layer.depth)
    return judge(replace(layer, matrix=matrix), cpu)


def _told(node: Any, found: Choice | str, cpu: Cpu | Gpu) -> LayerSparsity:
    result = node.outputs[0].shape
    channels = result[1] * (result[4] if len(result) > 4 else 1)
    if len(result) < 4:
        channels = result[-1]
    elements = node.operands[1].type.elements
    base = LayerSparsity(
        name=node.name or node.op,
        operator=node.op,
        channels=channels,
        length=elements // channels,
        places=node.outputs[0].elements // channels,
        is_sparse=False,
        reason=None,
    )
    if isinstance(found, str):
        return replace(base, reason=found)
    layer, lists, filters = found.layer, found.lists, found.filters
    if filters is None:
        stored = store_lists(layer.matrix, lists, layer.lanes, depth=layer.depth)
        group, multiplied = lists.width, lists.density
    else:
        stored = store_filters(filters.filters, filters.planes, filters.product.chunks)
        group, multiplied = 1, filters.filters.density
    return replace(
        base,
        is_sparse=found.reason is None,
        reason=found.reason,
        density=layer.density,
        group=group,
        effective_density=multiplied,
        dense_cycles=found.dense_cycles,
        sparse_cycles=found.sparse_cycles,
        break_even_density=break_even_density(found, cpu),
        dense_bytes=layer.matrix.nbytes,
        sparse_bytes=stored.bytes,
        csr_bytes=csr_bytes(layer.matrix),
    )
