"""Which calls become one kernel, and why the others do not."""

from tvm_fusionx.fusion.legality import Limits
from tvm_fusionx.fusion.mapping import TABLE, Verdict
from tvm_fusionx.fusion.plan import Block, EdgeDecision, Plan
from tvm_fusionx.fusion.planner import PlannerOptions, plan
from tvm_fusionx.fusion.reasons import Reason, Refusal

__all__ = [
    "TABLE",
    "Block",
    "EdgeDecision",
    "Limits",
    "Plan",
    "PlannerOptions",
    "Reason",
    "Refusal",
    "Verdict",
    "plan",
]
