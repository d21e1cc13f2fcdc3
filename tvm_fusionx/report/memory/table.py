"""What a model takes of memory, in lines of text."""

from __future__ import annotations

from tvm_fusionx.build.memory import ModelMemory, size_text


def memory_lines(memory: ModelMemory) -> list[str]:
    """Return weights, inputs, outputs, arena, its bound, the peak, and TVM's plan beside it."""
    plan = memory.plan
    between = memory.inputs + memory.outputs
    rows = [
        ("weights", size_text(memory.weights)),
        ("inputs and outputs", size_text(between)),
        ("arena", f"{size_text(plan.arena_bytes)}, {_gap(memory)}"),
        ("hungriest workspace", size_text(memory.workspace)),
        ("peak", f"{size_text(max(plan.live, default=0))} of the arena at {plan.peak_call or '-'}"),
        ("order of kernels", _order(memory)),
        ("all together", size_text(memory.total)),
        (
            "TVM's plan",
            f"{size_text(memory.tvm_activations)} with inputs and outputs, no workspaces",
        ),
    ]
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {text}" for name, text in rows]


def _gap(memory: ModelMemory) -> str:
    gap = memory.plan.gap_bytes
    return f"at most {size_text(gap)} over the least" if gap else "the least for this order"


def _order(memory: ModelMemory) -> str:
    is_own = memory.plan.order == tuple(range(len(memory.plan.order)))
    known = "none needs less" if memory.plan.is_best_order else "no better one was found"
    return f"{'as they were' if is_own else 'changed'}; {known}"
