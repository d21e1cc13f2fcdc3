from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import var
from tests.sampled import few_fast
from tests.schedules.gpu.gpu_blocks import assert_runs, describe
from tests.schedules.matching import knobs_of, why_not
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.rows import GPU_ROWS


@pytest.mark.parametrize("items", few_fast([1, 8, 64, 256], 1))
def test_every_number_of_items_gives_the_same(items: int) -> None:
    body = relay.nn.softmax(var("x", 6, 50) * var("y", 50))
    assert assert_runs(body, "gpu_rows", knobs={"row_items": items}).knobs == {"row_items": items}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (relay.exp(var("x", 4)), "no reduction"),
        (relay.nn.softmax(relay.nn.dense(var("x", 4, 6), var("w", 4, 6))), "a dot product"),
        (relay.sum(var("x", 400, 7), axis=1), "few elements"),
        (relay.sum(var("x", 9000, 64), axis=1), "an item each"),
        (relay.sum(var("x", 64, 900), axis=0), "neighbours in memory"),
        (relay.argmax(var("x", 4, 64), axis=1), "no pairs"),
    ],
)
def test_what_is_no_row_is_refused(body: relay.Expr, reason: str) -> None:
    assert reason in str(why_not(GPU_ROWS, describe(body)))


def test_items_follow_the_length_of_a_row() -> None:
    def items(*shape: int) -> int:
        info = describe(relay.nn.softmax(var("x", *shape)))
        return knobs_of(GPU_ROWS, info)["row_items"].default

    assert items(1000, 10) == 1
    assert items(8, 40) == 16
    assert items(8, 4096) == 128


def test_rows_beyond_local_memory_are_computed_again_where_they_are_read() -> None:
    assert Gpu().local_bytes < 6000 * 4
    entry = assert_runs(relay.nn.softmax(var("x", 2, 6000)), "gpu_rows")
    shared = [each for each in entry.func.body.block.alloc_buffers if each.scope() == "shared"]
    assert len(shared) == 2
