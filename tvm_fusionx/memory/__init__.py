"""Where the tensors of a model lie while it runs: lifetimes, an order of calls, one arena.

Nothing here knows of TVM: a :class:`Program` is calls, the buffers that they read and write, and
the bytes of each.
"""

from tvm_fusionx.memory.lifetimes import ALIGNMENT
from tvm_fusionx.memory.plan import MemoryPlan, check_plan, plan_memory
from tvm_fusionx.memory.program import Buffer, Call, Program

__all__ = [
    "ALIGNMENT",
    "Buffer",
    "Call",
    "MemoryPlan",
    "Program",
    "check_plan",
    "plan_memory",
]
