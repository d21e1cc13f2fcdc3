"""What reduces a product's rows runs in the product's own loop."""

from __future__ import annotations

import tvm
from tvm import relay, tir

from tests.schedules.blocked_blocks import describe
from tests.schedules.matrix_blocks import attention_scores
from tvm_fusionx.schedules import schedule


def _root_loops(func: tir.PrimFunc) -> int:
    body = func.body.block.body
    return len(body.seq) if isinstance(body, tir.SeqStmt) else 1


def test_scores_and_their_softmax_share_one_loop() -> None:
    block = describe(relay.nn.softmax(attention_scores(4, 16, 16, 8), axis=-1))
    scheduled = schedule(block.func, tvm.target.Target("llvm -mcpu=core-avx2 -num-cores=2"))
    assert scheduled.template == "dot"
    assert scheduled.fallback_reason is None
    assert _root_loops(scheduled.func) == 1


def test_a_softmax_over_the_rows_of_a_product_gets_a_loop_of_its_own() -> None:
    block = describe(relay.nn.softmax(attention_scores(4, 16, 16, 8), axis=2))
    scheduled = schedule(block.func, tvm.target.Target("llvm -mcpu=core-avx2 -num-cores=2"))
    assert scheduled.template == "dot"
    assert _root_loops(scheduled.func) > 1
