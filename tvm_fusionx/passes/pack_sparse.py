"""Leave out the zeros of constant weights where a kernel gains from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm

from tvm_fusionx.ecg import Graph, to_relay
from tvm_fusionx.layout import has_zeros, pack_convolutions, pack_sparse
from tvm_fusionx.layout.sparse import LEAST_GAIN
from tvm_fusionx.passes.graph_pass import transform_graphs
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.gpu import describe_gpu, is_gpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.schedules import resolve_target


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.PackSparse")
@dataclass(frozen=True)
class PackSparse:
    """Replace products with pruned weights by sparse ones, where those are faster.

    Structure is read off the constants, and every layer is judged by itself: one that would gain
    too little stays as it is. Convolutions get their layouts first, as
    :class:`~tvm_fusionx.passes.PackLayouts` chooses them, which belongs behind this pass. A model
    without zeros is left alone.

    Before::

        nn.dense(%x, %w)

    After::

        fusionx.sparse_dense(%x, %values, %index)
    """

    target: Any
    """What the kernels are for; another target than a CPU or OpenCL keeps what
    it has."""

    least_gain: float = LEAST_GAIN
    """How many times faster than the dense product a sparse one should be, by the estimate; at 0
    all products are sparse that can be and have zeros."""

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with sparse products."""
        target = resolve_target(self.target)
        if not (is_cpu(target) or is_gpu(target)):
            return mod
        processor = describe_cpu(target) if is_cpu(target) else describe_gpu(target)

        def pack(_: str, graph: Graph) -> Any:
            if not has_zeros(graph):
                return None
            pack_convolutions(graph, processor, fill=is_cpu(target))
            changed = pack_sparse(graph, processor, self.least_gain)
            return to_relay(graph) if changed else None

        return transform_graphs(mod, pack)
