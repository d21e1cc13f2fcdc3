"""Algebraic and structural rewriting of the ECG (DNNFusion, section 4.2)."""

from __future__ import annotations

from tvm_fusionx.ecg.graph import Graph
from tvm_fusionx.rewrite.engine import Application, apply_rules
from tvm_fusionx.rewrite.rule import Law, NumericClass, Refused, Rule, graph_rule, rule
from tvm_fusionx.rewrite.rules import ALL_RULES

__all__ = [
    "ALL_RULES",
    "Application",
    "Law",
    "NumericClass",
    "Refused",
    "Rule",
    "graph_rule",
    "rewrite",
    "rule",
]


def rewrite(graph: Graph, *, exact: bool = False) -> list[Application]:
    """Rewrite `graph` in place by all rules; see :func:`apply_rules`."""
    return apply_rules(graph, ALL_RULES, exact=exact)
