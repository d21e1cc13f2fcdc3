"""Group operator calls into blocks by mapping type."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import tvm

from tvm_fusionx._tvm.guarded_builds import guard_builds
from tvm_fusionx.ecg import Graph, to_relay
from tvm_fusionx.ecg.block_calls import count_blocks
from tvm_fusionx.ecg.fold import fold_constants
from tvm_fusionx.ecg.relay_attributes import FUNCTION
from tvm_fusionx.ecg.to_relay import RelayBlock
from tvm_fusionx.fusion import Limits, Plan, PlannerOptions, plan
from tvm_fusionx.fusion.attention import AttentionLimits
from tvm_fusionx.fusion.pairs import PairLimits
from tvm_fusionx.passes.graph_pass import transform_graphs
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.processors.gpu import describe_gpu, is_gpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.attention.streamed import LEAST_ROWS
from tvm_fusionx.schedules.windows.depthwise_pointwise_tiling import buffer_bytes


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.FuseByMapping")
@dataclass(frozen=True)
class FuseByMapping:
    """Group operator calls into blocks by mapping type, each block one ``Primitive`` function.

    Before::

        %0 = nn.dense(%x, %w); %1 = add(%0, %b); nn.relu(%1)

    After::

        %1 = fn (%p0, %p1, %p2, Primitive=1) { %0 = nn.dense(%p0, %p1); nn.relu(add(%0, %p2)) };
        %1(%x, %w, %b)

    Parameters
    ----------
    target
        What the blocks are for. A CPU has kernels for a depthwise convolution and the pointwise
        one after it, and for attention; without a target, or on another, they are two blocks each.
    """

    target: Any = None

    max_ops_per_block: int = Limits.operators
    """Upper bound on calls in one block; bounds compile time."""

    fuse: bool = True
    """Whether to fuse; without, every call becomes its own block (the control for measurements)."""

    options: PlannerOptions = field(default_factory=PlannerOptions)
    """All else that the planner may do: other limits, the optimal planner, measuring."""

    def planner_options(self) -> PlannerOptions:
        """Return `options` with what the other fields say."""
        limits = replace(
            gpu_limits(self.target, self.options.limits),
            operators=min(self.max_ops_per_block, self.options.limits.operators),
            pairs=self.options.limits.pairs or pair_limits(self.target),
            attention=self.options.limits.attention or attention_limits(self.target),
        )
        return replace(self.options, limits=limits, fuse=self.fuse and self.options.fuse)

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with every static function of it cut into blocks."""
        return fuse_module(mod, self.planner_options())[0]


def pair_limits(target: Any) -> PairLimits | None:
    """Return what a target offers to pairs; None without a target, or where none serves them."""
    cpu = _cpu_of(target)
    return PairLimits(cores=cpu.cores, buffer_bytes=buffer_bytes(cpu)) if cpu else None


def attention_limits(target: Any) -> AttentionLimits | None:
    """Return what a target offers to attention; None without a target, or where none serves it."""
    return AttentionLimits(LEAST_ROWS) if _cpu_of(target) else None


def gpu_limits(target: Any, limits: Limits) -> Limits:
    """Return `limits` with those of a GPU; as they are without a target, or on another.

    A kernel takes as many arguments as the driver allows. A work-group computes a tile of a product
    and not whole rows of it, and groups cannot wait for each other: stages that need that would be
    kernels of their own inside of one block.
    """
    if target is None:
        return limits
    resolved = resolve_target(target)
    if not is_gpu(resolved):
        return limits
    return replace(
        limits,
        arguments=min(limits.arguments, describe_gpu(resolved).arguments),
        rows_after_contraction=False,
        small_chains=False,
        results_before_pools=False,
    )


def _cpu_of(target: Any) -> Cpu | None:
    if target is None:
        return None
    resolved = resolve_target(target)
    return describe_cpu(resolved) if is_cpu(resolved) else None


# Between the name of a function and that of one of its blocks or calls.
OF_FUNCTION = "/"
MAIN = "main"


def fuse_module(mod: Any, options: PlannerOptions) -> tuple[Any, dict[str, Plan]]:
    """Cut the functions of a module into blocks.

    Parameters
    ----------
    mod
        Relay module; not changed.
    options
        What the planner may do.

    Returns
    -------
    mod
        The module with blocks; functions that are not static data-flow graphs are as they were.
    plans
        Name of each function that was planned, and its plan.
    """
    guard_builds(count_blocks)
    plans = {}

    def cut(name: str, graph: Graph) -> Any:
        # A call on constants alone would become a kernel that computes the same on every run.
        fold_constants(graph)
        plans[name] = made = plan(graph, options)
        return to_relay(graph, relay_blocks(made, "" if name == MAIN else name + OF_FUNCTION))

    return transform_graphs(mod, cut), plans


def relay_blocks(made: Plan, prefix: str = "") -> list[RelayBlock]:
    """Return a plan's blocks as the functions to write; calls of functions need no new one.

    Parameters
    ----------
    prefix
        What their names begin with, so that blocks of several functions have names of their own.
    """
    return [
        RelayBlock(prefix + block.name, block.nodes, block.is_reshape_only)
        for block in made.blocks
        if block.ops != (FUNCTION,)
    ]
