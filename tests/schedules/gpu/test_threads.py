from __future__ import annotations

import pytest
from tvm import relay, tir

from tests.relay_modules import var
from tests.schedules.blocked_blocks import unscheduled
from tests.schedules.gpu.gpu_blocks import OPENCL
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.threads import (
    bind_flat,
    bind_shares,
    points_of,
    power_up_to,
    shares_of,
    work_items,
)
from tvm_fusionx.schedules.parts.nest import extent


@pytest.mark.parametrize(
    ("extents", "wanted", "shares"),
    [
        ([24, 48], 128, [2, 48]),
        ([7, 7], 128, [7, 7]),
        ([100, 7], 128, [1 * 10, 7]),
        ([197], 128, [128]),
        ([3, 1024], 128, [1, 128]),
        ([5], 1, [1]),
        ([], 128, []),
    ],
)
def test_shares_divide_axes_from_the_innermost(
    extents: list[int], wanted: int, shares: list[int]
) -> None:
    assert shares_of(extents, wanted) == shares


def test_powers_cover_points_up_to_a_bound() -> None:
    assert [power_up_to(points, 64) for points in (1, 2, 3, 33, 1000)] == [1, 2, 4, 64, 64]


def test_few_points_take_a_small_group() -> None:
    assert [work_items(Gpu(), points) for points in (1, 3, 100, 5000)] == [1, 4, 128, 128]
    assert work_items(Gpu(items=32), 5000) == 32


def test_every_point_has_one_item() -> None:
    for bind in (bind_flat, bind_shares):
        sch = tir.Schedule(unscheduled(relay.exp(var("x", 6, 10, 14)), OPENCL))
        (name,) = [each for each in ("T_exp", "compute") if _has(sch, each)]
        loops = sch.get_loops(sch.get_block(name))
        points = points_of(sch, loops)
        item = bind(sch, loops, 128)
        assert sch.get(item).thread_binding.thread_tag == "threadIdx.x"
        group = sch.get_loops(sch.get_block(name))[0]
        assert points <= extent(sch, group) * extent(sch, item) < points + extent(sch, item)


def _has(sch: tir.Schedule, name: str) -> bool:
    return any(each.name_hint == name for each in _blocks(sch))


def _blocks(sch: tir.Schedule) -> list[tir.Block]:
    found: list[tir.Block] = []
    tir.stmt_functor.post_order_visit(
        sch.mod["main"].body,
        lambda node: found.append(node) if isinstance(node, tir.Block) else None,
    )
    return found
