"""Algebraic and structural rewriting of the ECG (DNNFusion, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tvm_fusionx.ecg.graph import Graph
from tvm_fusionx.rewrite.engine import Application, apply_rules
from tvm_fusionx.rewrite.neighbourhood import CountKernels
from tvm_fusionx.rewrite.rule import Law, NumericClass, Refused, Rule, graph_rule, rule
from tvm_fusionx.rewrite.rules import ALL_RULES
from tvm_fusionx.rewrite.saturate import saturate

__all__ = [
    "ALL_RULES",
    "Application",
    "Law",
    "NumericClass",
    "Refused",
    "Rule",
    "Strategy",
    "graph_rule",
    "rewrite",
    "rule",
]


Strategy = Literal["greedy", "saturate"]
"""How rules are chosen: the largest gain first, or the cheapest of all equal forms."""


def rewrite(
    graph: Graph,
    rules: Sequence[Rule] | None = None,
    *,
    exact: bool = False,
    strategy: Strategy = "greedy",
    budget_seconds: float = 5.0,
    count_kernels: CountKernels | None = None,
) -> list[Application]:
    """Rewrite a graph in place.

    Parameters
    ----------
    graph
        Changed in place.
    rules
        In order of preference at equal gain; ``ALL_RULES`` when None.
    exact
        Whether to leave out rules that change rounding.
    strategy
        ``saturate`` looks for the cheapest form of each region of elementwise operators before the
        largest gain is taken first everywhere; it needs ``egglog``.
    budget_seconds
        Time for saturation.
    count_kernels
        Plans the surroundings of a change where kernels decide; without, they are estimated.

    Returns
    -------
    applications
        What was done, in order.

    Raises
    ------
    ValueError
        The strategy is unknown, or regroups sums although `exact` forbids it.
    """
    if strategy not in ("greedy", "saturate"):
        raise ValueError(f"strategy is {strategy!r}; expected 'greedy' or 'saturate'")
    rules = ALL_RULES if rules is None else rules
    done: list[Application] = []
    if strategy == "saturate":
        if exact:
            raise ValueError("saturation regroups sums, which exact forbids: use strategy='greedy'")
        done = saturate(graph, rules, budget_seconds=budget_seconds)
    return done + apply_rules(graph, rules, exact=exact, count_kernels=count_kernels)
