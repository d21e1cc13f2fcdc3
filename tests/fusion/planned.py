"""Plans of small expressions, read by operator names."""

from __future__ import annotations

from tvm import relay

from tests.relay_modules import graph
from tvm_fusionx.fusion import EdgeDecision, Plan, PlannerOptions, Reason, plan


def planned(*exprs: relay.Expr, options: PlannerOptions | None = None) -> Plan:
    """Return the plan of a function that returns `exprs`."""
    return plan(graph(*exprs), options)


def blocks(*exprs: relay.Expr, options: PlannerOptions | None = None) -> list[tuple[str, ...]]:
    """Return the operators of each block."""
    return [block.ops for block in planned(*exprs, options=options).blocks]


def decisions(plan_: Plan) -> dict[tuple[str, str], EdgeDecision]:
    """Return the decision on each edge, by operators; of several alike, the last."""
    return {(_op(edge.producer), _op(edge.consumer)): edge for edge in plan_.edges}


def reasons(plan_: Plan) -> set[Reason]:
    """Return every reason that the plan gives."""
    return {edge.reason for edge in plan_.edges if edge.reason is not None}


def _op(label: str) -> str:
    return label.partition("#")[0]
