"""Simplify a module and rewrite it by algebraic laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx._tvm.cures import let_cure, simplification_passes
from tvm_fusionx.ecg import Graph, to_relay
from tvm_fusionx.ecg.block_calls import STEERS
from tvm_fusionx.ecg.fold import fold_constants
from tvm_fusionx.fusion import plan
from tvm_fusionx.late_passes.flush_denormals import FLUSH, Denormals, check_denormals
from tvm_fusionx.passes.graph_pass import is_plain_function, transform_graphs
from tvm_fusionx.rewrite import Application, Rule, Strategy, rewrite
from tvm_fusionx.rewrite.channels import CHUNK, drop_dead_channels
from tvm_fusionx.rewrite.denormal_constants import flush_constants
from tvm_fusionx.rewrite.zero_divisors import shield_zero_divisors

# TVM's own simplifications are registered at this level or below.
TVM_OPT_LEVEL = 3


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.RewriteGraph")
@dataclass(frozen=True)
class RewriteGraph:
    """Simplify, fold constants, then rewrite by associative, distributive and commutative laws.

    Before::

        %0 = nn.dense(%x, %w1); %1 = nn.dense(%x, %w2); add(%0, %1)

    After::

        nn.dense(%x, %w1 + %w2)
    """

    exact: bool = False
    """Whether to leave out the rules that change rounding."""

    rules: Sequence[Rule] | None = None
    """Rules in order of preference at equal gain; all of ``tvm_fusionx.rewrite.ALL_RULES`` when
    None. Add your own behind those."""

    strategy: Strategy = "greedy"
    """``saturate`` keeps all equal forms of an elementwise region, takes the cheapest (egglog)."""

    budget_seconds: float = 5.0
    """Time for saturation."""

    denormals: Denormals = FLUSH
    """``"flush"`` makes zeros of constants' elements below the smallest normal number, for which
    kernels would take them anyway; ``"keep"`` leaves them."""

    chunk: int = CHUNK
    """Channels that the target computes at once: of channels that nothing needs, so many go
    together. None go without rules."""

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the rewritten module."""
        return rewrite_module(
            mod,
            exact=self.exact,
            rules=self.rules,
            strategy=self.strategy,
            budget_seconds=self.budget_seconds,
            denormals=self.denormals,
            chunk=self.chunk,
        )[0]


def rewrite_module(
    mod: Any,
    *,
    exact: bool = False,
    rules: Sequence[Rule] | None = None,
    strategy: Strategy = "greedy",
    budget_seconds: float = 5.0,
    denormals: Denormals = FLUSH,
    chunk: int = CHUNK,
) -> tuple[Any, list[Application]]:
    """Simplify and rewrite every static function of a module.

    Parameters
    ----------
    mod
        Relay module; not changed.
    exact
        Whether to apply only rules that keep every bit.
    rules, strategy, budget_seconds
        See :func:`tvm_fusionx.rewrite.rewrite`.
    denormals, chunk
        See :class:`RewriteGraph`.

    Returns
    -------
    mod
        The rewritten module.
    applications
        What was done, in order: channels dropped, then every application of a rule.
    """
    check_denormals(denormals)
    mod = _simplified(mod)
    applications: list[Application] = []

    def apply_rules(_: str, graph: Graph) -> Any:
        if denormals == FLUSH:
            flush_constants(graph)
        mark = graph.mark()
        if rules is None or rules:
            fold_constants(graph)
            applications.extend(drop_dead_channels(graph, chunk))
        applications.extend(
            rewrite(
                graph,
                rules,
                exact=exact,
                strategy=strategy,
                budget_seconds=budget_seconds,
                count_kernels=planned_kernels,
            )
        )
        if denormals == FLUSH:
            # Products of constants may have become too small.
            flush_constants(graph, since=mark)
        shield_zero_divisors(graph)
        return to_relay(graph)

    return transform_graphs(mod, apply_rules), applications


def _simplified(mod: Any) -> Any:
    """Return the module simplified by TVM.

    Where functions steer, each other one alone: TVM enters kernels of one operator, which these
    have already, and puts marks there that no kernel can hold.
    """
    functions = dict(mod.functions.items())
    if not any(STEERS in (func.attrs or {}) for func in functions.values()):
        return _simplified_by_tvm(mod)
    out = tvm.IRModule(functions, mod.type_definitions, attrs=mod.attrs)
    for name, func in functions.items():
        if is_plain_function(func):
            alone = _simplified_by_tvm(tvm.IRModule({relay.GlobalVar("main"): func}))["main"]
            out[name] = relay.Function(
                alone.params, alone.body, func.ret_type, alone.type_params, alone.attrs
            )
    return out


def _simplified_by_tvm(mod: Any) -> Any:
    with let_cure(), tvm.transform.PassContext(opt_level=TVM_OPT_LEVEL):
        return tvm.transform.Sequential(simplification_passes())(mod)


def planned_kernels(graph: Graph) -> int:
    """Return how many kernels the planner makes of a graph, on no target in particular."""
    return plan(graph).kernels
