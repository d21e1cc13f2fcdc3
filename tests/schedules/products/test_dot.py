"""Matrix products: the template serves them whatever surrounds them, and the numbers are right."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, TARGET, module, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import assert_computes, assert_scheduled, describe, unscheduled
from tests.schedules.matching import knobs_of, why_not
from tests.schedules.matrix_blocks import (
    attention_scores,
    attention_values,
    gelu,
    layer_norm,
    packed_dense,
)
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.products.dot import DOT
from tvm_fusionx.tir.block import describe_block


def _cut(rows: int, columns: int, depth: int) -> relay.Expr:
    """Return a product whose padded columns are cut off before its bias is added."""
    data, weights = var("x", rows, depth), var("w", -(-columns // 16), depth, 16)
    product = relay.nn.contrib_dense_pack(data, weights, weight_layout="NC16n")
    return relay.strided_slice(product, [0, 0], [rows, columns]) + var("bias", columns)


def _in_heads(x: relay.Expr, rows: int, columns: int) -> relay.Expr:
    return relay.transpose(relay.reshape(x, (1, rows, columns // 8, 8)), (0, 2, 1, 3))


def _shared(x: relay.Expr, batch: int) -> relay.Expr:
    """Return a matrix that all products of a batch share, as heads share keys."""
    return relay.broadcast_to(relay.expand_dims(x, 0), (batch, *map(int, x.type_annotation.shape)))


def _residual_norm(rows: int, columns: int, depth: int = 24) -> relay.Expr:
    total = relay.reshape(packed_dense(rows, columns, depth), (1, rows, columns))
    return layer_norm(total + var("residual", 1, rows, columns), columns)


def _both_sum_and_norm() -> relay.Expr:
    total = packed_dense(12, 32, 24) + var("residual", 12, 32)
    return relay.Tuple([total, layer_norm(total, 32)])


BLOCKS = {
    "two batches that share keys": relay.nn.batch_matmul(
        var("x", 2, 17, 16), _shared(var("y", 5, 16), 2)
    ),
    "bias": packed_dense(16, 64, 24),
    "rows the tile does not divide": packed_dense(13, 48, 7),
    "one row": packed_dense(1, 64, 33),
    "gelu": gelu(packed_dense(9, 32, 20)),
    "relu": relay.nn.relu(packed_dense(40, 32, 20)),
    "split into heads": _in_heads(packed_dense(10, 32, 20), 10, 32),
    "residual and norm": _residual_norm(12, 48),
    "residual and norm of prime rows": _residual_norm(13, 32),
    "a sum and its norm": _both_sum_and_norm(),
    "padded columns cut off": relay.strided_slice(packed_dense(6, 48, 9), [0, 0], [6, 41]),
    "padded columns cut off before the bias": _cut(6, 41, 9),
    "padded columns cut off one row": _cut(1, 33, 20),
    "padded columns cut off prime rows": _cut(13, 47, 7),
    "gelu of cut columns": gelu(_cut(9, 41, 9)),
    "cut columns split into heads": _in_heads(_cut(10, 40, 20), 10, 40),
    "softmax of cut columns": relay.nn.softmax(_cut(12, 37, 9)),
    "norm of cut columns of prime rows": layer_norm(_cut(13, 41, 9), 41),
    "columns that a tile does not divide cut off": relay.strided_slice(
        relay.nn.dense(var("x", 9, 20), var("w", 37, 20)), [0, 0], [9, 35]
    ),
    "scores": attention_scores(3, 16, 16, 8),
    "scores of prime sizes": attention_scores(2, 13, 17, 5),
    "softmax of scores": relay.nn.softmax(attention_scores(3, 16, 16, 8), axis=-1),
    "softmax of prime scores": relay.nn.softmax(attention_scores(2, 13, 17, 5), axis=-1),
    "values": attention_values(3, 16, 16, 8),
    "values of prime sizes": attention_values(2, 13, 11, 5),
    "weights that are not constant": relay.nn.dense(var("x", 9, 20), var("w", 37, 20)),
    "plain matrices": relay.nn.matmul(var("x", 9, 20), var("w", 20, 37)),
    "three batches that share values": relay.nn.batch_matmul(
        var("x", 3, 13, 7), _shared(var("y", 7, 37), 3), transpose_b=False
    ),
    "two batches that share queries": relay.nn.batch_matmul(
        _shared(var("x", 17, 16), 2), var("y", 2, 37, 16)
    ),
    "softmax of scores of shared keys": relay.nn.softmax(
        relay.nn.batch_matmul(var("x", 2, 14, 8), _shared(var("y", 19, 8), 2))
    ),
    "two parts of one tensor": relay.nn.batch_matmul(
        relay.strided_slice(var("x", 2, 8, 12), [0, 0, 0], [2, 8, 6]),
        relay.strided_slice(var("x2", 2, 8, 12), [0, 0, 6], [2, 8, 12]),
    ),
    "operands that must be computed first": relay.nn.batch_matmul(
        relay.exp(var("x", 2, 8, 6)), relay.tanh(var("y", 2, 9, 6))
    ),
}


@pytest.mark.parametrize("case", few_fast(BLOCKS))
def test_product(case: str) -> None:
    assert_scheduled(BLOCKS[case], "dot", REASSOCIATING)


REFUSED = {
    "no dot product": relay.exp(var("x", 4, 8)),
    "more than one": relay.nn.dense(relay.nn.dense(var("x", 4, 8), var("v", 8, 8)), var("w", 8, 8)),
    "neither a floating-point": relay.nn.dense(
        var("x", 4, 8, dtype="int32"), var("w", 8, 8, dtype="int32"), out_dtype="int32"
    ),
    "matrix-vector": relay.nn.dense(var("x", 1, 8), var("w", 8, 8)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusal_has_a_reason(reason: str) -> None:
    found = why_not(DOT, describe(REFUSED[reason]))
    assert found is not None
    assert reason in found


def test_knobs_have_their_defaults_among_their_choices() -> None:
    knobs = knobs_of(DOT, describe(packed_dense(16, 64, 24)))
    assert set(knobs) == {"tile_rows", "tile_vectors", "tile_steps", "sum_parts", "row_block"}
    assert all(knob.default in knob.choices for knob in knobs.values())


LONG_SUMS = {
    "bias": packed_dense(24, 64, 1024),
    "prime rows": packed_dense(13, 48, 768),
    "more rows than a tile has": packed_dense(197, 32, 512),
    "columns that no group of cores divides": packed_dense(16, 80, 512),
    "cut columns": _cut(9, 41, 512),
    "gelu of prime rows": gelu(packed_dense(11, 48, 512)),
    "split into heads": _in_heads(packed_dense(10, 32, 512), 10, 32),
    "norm of prime rows": layer_norm(packed_dense(13, 48, 512), 48),
    "a sum and its norm": _residual_norm(12, 48, 512),
}


@pytest.mark.parametrize("case", few_fast(LONG_SUMS))
@pytest.mark.parametrize(("knob", "least"), [("sum_parts", 2), ("tile_steps", 3)])
def test_every_choice_of_a_knob_gives_the_same_numbers(case: str, knob: str, least: int) -> None:
    mod, target = module(LONG_SUMS[case]), resolve_target(f"{TARGET} -num-cores=2")
    func = unscheduled(LONG_SUMS[case], target)
    choices = knobs_of(DOT, describe_block(func, describe_cpu(target)))[knob].choices
    assert len(choices) >= least
    for choice in choices:
        made = schedule(func, target, template="dot", knobs={knob: choice})
        assert (made.template, made.fallback_reason) == ("dot", None)
        assert_computes(made.func, target, mod)
