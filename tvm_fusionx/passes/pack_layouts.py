"""Choose layouts once, and pack constants for them at compile time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import tvm

from tvm_fusionx.ecg import Graph, to_relay
from tvm_fusionx.ecg.fold import fold_constants
from tvm_fusionx.layout import (
    pack_batched_integers,
    pack_block_weights,
    pack_convolutions,
    pack_dense,
    pack_winograd,
    transpose_weights,
)
from tvm_fusionx.passes.graph_pass import transform_graphs
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.processors.gpu import Gpu, describe_gpu, is_gpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.schedules import resolve_target


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.PackLayouts")
@dataclass(frozen=True)
class PackLayouts:
    """Give convolutions and matrix products the layouts that the templates run fastest on.

    Constants are packed at compile time; activations change layout only at the border of a region
    of operators that agree on one.

    Before::

        nn.conv2d(%x, %w)

    After::

        %0 = layout_transform(%x, NCHW, NCHW8c);
        %1 = nn.contrib_conv2d_NCHWc(%0, packed %w);
        layout_transform(%1, NCHW8c, NCHW)
    """

    target: Any
    """What the layouts are for; another target than a CPU or OpenCL keeps what it has."""

    winograd: bool = True
    """Whether 3x3 convolutions may be computed by Winograd's minimal filtering, which is faster but
    rounds up to ten times worse than the direct sum."""

    halves: bool = False
    """Whether chunks of channels, and panels of weights, fill vectors of halves on a CPU, for
    :class:`SumInHalves`."""

    brains: bool = False
    """Whether floats will lie in memory as bfloat16, for :class:`MultiplyBrains`: a 3x3 convolution
    that it serves is summed directly."""

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with layouts chosen."""
        target = resolve_target(self.target)
        if is_cpu(target):
            choose = self._choose_for_cpu(describe_cpu(target))
        elif is_gpu(target):
            choose = self._choose_for_gpu(describe_gpu(target))
        else:
            return mod

        def pack(_: str, graph: Graph) -> Any:
            choose(graph)
            fold_constants(graph)
            graph.prune()
            return to_relay(graph)

        return transform_graphs(mod, pack)

    def _choose_for_cpu(self, cpu: Cpu) -> Callable[[Graph], None]:
        def choose(graph: Graph) -> None:
            lanes = 2 * cpu.lanes if self.halves else cpu.lanes
            pack_convolutions(graph, replace(cpu, lanes=lanes))
            if self.winograd:
                pack_winograd(graph, cpu, brains=self.brains)
            pack_dense(graph, cpu, halves=self.halves)
            pack_batched_integers(graph, cpu)
            pack_block_weights(graph, cpu)

        return choose

    def _choose_for_gpu(self, gpu: Gpu) -> Callable[[Graph], None]:
        def choose(graph: Graph) -> None:
            # Chunks of four channels: what one vector load brings, and one pixel of a texture.
            pack_convolutions(graph, gpu, fill=False)
            transpose_weights(graph)

        return choose
