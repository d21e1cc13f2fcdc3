"""What follows a product runs in the product's own loop, or where cores share its columns."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay, tir

from tests.relay_modules import REASSOCIATING, assert_close, var
from tests.schedules.blocked_blocks import describe
from tests.schedules.matching import knobs_of
from tests.schedules.matrix_blocks import attention_scores, gelu, layer_norm, packed_dense
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import schedule
from tvm_fusionx.schedules.products.dot import DOT
from tvm_fusionx.schedules.products.plan import COLUMNS_APART, ROW_BLOCK_KNOB

TARGET = tvm.target.Target("llvm -mcpu=core-avx2 -num-cores=2")


def _root_loops(func: tir.PrimFunc) -> int:
    body = func.body.block.body
    return len(body.seq) if isinstance(body, tir.SeqStmt) else 1


def test_scores_and_their_softmax_share_one_loop() -> None:
    block = describe(relay.nn.softmax(attention_scores(4, 16, 16, 8), axis=-1))
    scheduled = schedule(block.func, TARGET)
    assert scheduled.template == "dot"
    assert scheduled.fallback_reason is None
    assert _root_loops(scheduled.func) == 1


def test_a_softmax_over_the_rows_of_a_product_gets_a_loop_of_its_own() -> None:
    block = describe(relay.nn.softmax(attention_scores(4, 16, 16, 8), axis=2))
    scheduled = schedule(block.func, TARGET)
    assert scheduled.template == "dot"
    assert _root_loops(scheduled.func) > 1


def test_a_gelu_is_part_of_the_tile_and_cores_share_the_columns() -> None:
    block = describe(gelu(packed_dense(64, 512, 768)))
    scheduled = schedule(block.func, TARGET)
    assert scheduled.fallback_reason is None
    assert _root_loops(scheduled.func) == 1
    loop = scheduled.func.body.block.body
    assert (loop.kind, int(loop.extent)) == (tir.ForKind.PARALLEL, 512 // 16)


def _norm(rows: int) -> relay.Expr:
    total = packed_dense(rows, 48, 24) + var("residual", rows, 48)
    return relay.Tuple([total, layer_norm(total, 48)])


def test_a_norm_has_a_loop_of_its_own_where_cores_share_the_columns() -> None:
    info = describe(_norm(16))
    for choice in knobs_of(DOT, info)[ROW_BLOCK_KNOB].choices:
        scheduled = schedule(info.func, TARGET, {ROW_BLOCK_KNOB: choice})
        assert _root_loops(scheduled.func) == (2 if choice == COLUMNS_APART else 1)


@pytest.mark.parametrize("rows", [16, 13])
def test_a_norm_gives_the_same_numbers_wherever_it_runs(rows: int) -> None:
    info = describe(_norm(rows))
    results = {}
    for choice in knobs_of(DOT, info)[ROW_BLOCK_KNOB].choices:
        scheduled = schedule(info.func, TARGET, {ROW_BLOCK_KNOB: choice})
        assert (scheduled.template, scheduled.fallback_reason) == ("dot", None)
        results[choice] = _run(scheduled.func)
    assert len(results) > 1
    for found in results.values():
        assert_close(found, results[COLUMNS_APART], REASSOCIATING)


def _run(func: tir.PrimFunc) -> list[np.ndarray]:
    """Return the sum and its norm, computed from the same numbers each time."""
    generator = np.random.default_rng(0)
    buffers = [func.buffer_map[each] for each in func.params]
    shapes = [[int(size) for size in buffer.shape] for buffer in buffers]
    arrays = [tvm.nd.array(generator.random(shape, "float32")) for shape in shapes]
    compile_kernel(func, TARGET, "block")["block"](*arrays)
    return [array.numpy() for array in arrays[-2:]]
