"""The kernel as a statement: work-items, and loops as long as lists."""

from __future__ import annotations

from typing import Any

from tvm import relay, tir

from tests.schedules.gpu.gpu_blocks import describe
from tests.schedules.matching import matched
from tests.schedules.sparse_blocks import dense, pruned
from tvm_fusionx.schedules.gpu.sparse import GPU_SPARSE
from tvm_fusionx.schedules.gpu.work import MEAN_EXTENT


def _loops(func: Any) -> list[Any]:
    found: list[Any] = []
    tir.stmt_functor.post_order_visit(
        func.body, lambda node: found.append(node) if isinstance(node, tir.For) else None
    )
    return found


def test_items_cover_the_groups_and_tiles() -> None:
    body, stored = dense(13, pruned(24, 40, 8, 0.5), 8, 4, relay.nn.relu)
    match = matched(GPU_SPARSE, describe(body))
    func = match.emit({"places": 4, "items": 8, "planes": 1})
    loops = _loops(func)
    bound = {
        str(loop.thread_binding.thread_tag): int(loop.extent)
        for loop in loops
        if loop.thread_binding is not None and loop.loop_var.name.startswith("work_")
    }
    # Three groups of channels, four tiles of places.
    assert bound == {"blockIdx.x": 2, "threadIdx.x": 8}
    mean = -(-len(stored.values) // 3)
    told = [int(loop.annotations[MEAN_EXTENT]) for loop in loops if MEAN_EXTENT in loop.annotations]
    assert sorted(told) == sorted([mean // 4, mean % 4])
