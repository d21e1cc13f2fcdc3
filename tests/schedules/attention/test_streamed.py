"""Attention of any number of queries and keys: float64's numbers, and refusals with a reason."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relay

from tests.relay_modules import REASSOCIATING, assert_close, var
from tests.sampled import few_fast
from tests.schedules.attention_numbers import (
    assert_attends,
    built,
    expected,
    operands,
    softmax,
)
from tests.schedules.blocked_blocks import AVX2, AVX512, NEON, assert_scheduled, describe
from tests.schedules.matching import why_not
from tests.schedules.matrix_blocks import attention, attention_scores, norm_attention
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.attention.streamed import STREAMED_ATTENTION, best_rows, default_tiling
from tvm_fusionx.schedules.attention.structure import Softmax

# Heads, queries, keys, depth, width of the values.
SHAPES = {
    "tails everywhere": (2, 13, 37, 5, 21),
    "several chunks": (1, 9, 1500, 8, 16),
    "7 queries": (2, 7, 9, 4, 4),
    "whole tiles": (3, 16, 32, 8, 32),
    "4 queries": (1, 4, 33, 1, 1),
    "197 positions": (2, 197, 197, 16, 16),
    "384 positions": (1, 384, 384, 8, 8),
    "1500 positions": (1, 1500, 1500, 8, 8),
    "4096 keys": (1, 24, 4096, 16, 8),
}


@pytest.mark.parametrize("case", few_fast(SHAPES, 2))
def test_attention(case: str) -> None:
    assert_attends(*SHAPES[case])


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(
    heads=st.integers(1, 4),
    rows=st.integers(4, 40),
    columns=st.integers(2, 700),
    depth=st.integers(2, 20),
    width=st.integers(2, 40),
)
def test_attention_of_any_shape(
    heads: int, rows: int, columns: int, depth: int, width: int
) -> None:
    assert_attends(heads, rows, columns, depth, width)


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 3])
def test_rows_of_a_head_shared_by_cores(cores: int) -> None:
    assert_attends(1, 61, 20, 4, 8, target=f"llvm -num-cores={cores}")


@pytest.mark.parametrize("columns", few_fast([21, 600], 1))
def test_masked_keys_weigh_nothing(columns: int) -> None:
    shape = (1, 8, columns, 4, 8)
    arrays = operands(*shape)
    arrays["mask"][..., columns // 3 :] = -np.inf
    assert_attends(*shape, arrays=arrays)


@pytest.mark.slow
def test_keys_that_are_all_masked_by_the_lowest_number_weigh_the_same() -> None:
    shape = (1, 8, 21, 4, 8)
    arrays = operands(*shape)
    arrays["mask"][...] = np.finfo("float32").min
    found = built(attention(*shape), arrays)
    wanted = np.broadcast_to(arrays["v"].astype("float64").mean(0), found.shape)
    assert_close([found], [wanted.astype("float32")], REASSOCIATING)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [21, 600])
@pytest.mark.parametrize("spoilt", ["every key masked", "one key masked by NaN", "a value of NaN"])
def test_what_is_no_number_reaches_what_reads_it(spoilt: str, columns: int) -> None:
    shape = (1, 8, columns, 4, 8)
    arrays = operands(*shape)
    if spoilt == "every key masked":
        arrays["mask"][...] = -np.inf
    elif spoilt == "one key masked by NaN":
        arrays["mask"][..., columns // 2] = np.nan
    else:
        arrays["v"][columns // 2, 3] = np.nan
    found = np.isnan(built(attention(*shape), arrays))
    wanted = np.arange(8) == 3 if spoilt == "a value of NaN" else np.ones(8, bool)
    assert np.array_equal(found, np.broadcast_to(wanted, found.shape))


@pytest.mark.slow
def test_scores_rise_from_chunk_to_chunk() -> None:
    shape = (1, 8, 1200, 4, 8)
    arrays = operands(*shape)
    arrays["mask"][...] = np.linspace(-200, 200, 1200, dtype="float32")
    assert np.isfinite(expected(arrays, 1)).all()
    assert_attends(*shape, arrays=arrays)


@pytest.mark.slow
def test_a_causal_mask_and_queries_that_are_computed() -> None:
    rows, depth = 29, 8
    q, k, v = (var(name, 2, rows, depth) for name in "qkv")
    seen = relay.greater(var("causal", 1, rows, rows), relay.const(0.0))
    scores = relay.nn.batch_matmul(q * relay.const(0.5), k + var("bias", depth))
    weights = relay.nn.softmax(relay.where(seen, relay.tanh(scores), relay.const(-1e4)))
    body = relay.nn.batch_matmul(weights, relay.exp(v), transpose_b=False)
    generator = np.random.default_rng(0)
    arrays = {name: generator.standard_normal((2, rows, depth)).astype("float32") for name in "qkv"}
    arrays["bias"] = generator.standard_normal(depth).astype("float32")
    arrays["causal"] = np.tri(rows, dtype="float32")[None]
    found = built(body, arrays)
    double = {name: array.astype("float64") for name, array in arrays.items()}
    product = double["q"] * 0.5 @ (double["k"] + double["bias"]).transpose(0, 2, 1)
    masked = np.where(arrays["causal"] > 0, np.tanh(product), -1e4)
    wanted = softmax(masked) @ np.exp(double["v"])
    assert_close([found], [wanted.astype("float32")], REASSOCIATING)


@pytest.mark.slow
def test_several_images_and_what_follows() -> None:
    q, k, v = (var(name, 6, 10, 4) for name in "qkv")
    scores = relay.reshape(relay.nn.batch_matmul(q, k), (2, 3, 10, 10)) + var("m", 2, 1, 10, 10)
    weights = relay.reshape(relay.nn.softmax(scores), (6, 10, 10))
    product = relay.nn.batch_matmul(weights, v, transpose_b=False)
    apart = relay.transpose(relay.reshape(product, (2, 3, 10, 4)), (0, 2, 1, 3))
    body = relay.nn.relu(relay.reshape(apart, (2, 10, 12)) + var("r", 2, 10, 12))
    assert_scheduled(body, "streamed_attention", REASSOCIATING)


ONE = attention(2, 8, 8, 4, 4)

REFUSED = {
    "not two dot products": relay.nn.batch_matmul(var("a", 2, 8, 4), var("b", 2, 8, 4)),
    "do not follow each other": attention_scores(2, 8, 8, 4) + attention_scores(2, 8, 8, 4),
    "not those of a softmax": norm_attention(2, 8, 8, 4, 4),
    "several results": relay.Tuple([ONE, relay.exp(ONE)]),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusal_has_a_reason(reason: str) -> None:
    assert reason in (why_not(STREAMED_ATTENTION, describe(REFUSED[reason])) or "")


def _sizes(heads: int, rows: int, columns: int) -> Softmax:
    def nothing(*_: object) -> None:
        raise AssertionError("sizes alone are asked for")

    return Softmax("s", (), "v", heads, rows, columns, 64, 64, nothing, nothing, nothing, nothing)


@pytest.mark.parametrize("cpu", [AVX2, AVX512])
@pytest.mark.parametrize("columns", [7, 128, 197, 1500, 4096])
def test_scores_that_are_held_stay_in_the_first_cache(cpu: Cpu, columns: int) -> None:
    tiling = default_tiling(_sizes(6, 1500, columns), cpu)
    assert tiling.block_tiles * tiling.rows * tiling.chunk * 4 <= cpu.l1_bytes // 2
    assert tiling.chunk == columns or tiling.chunk % (tiling.key_vectors * tiling.lanes) == 0


def test_tiles_waste_few_rows() -> None:
    assert best_rows(1500, 8) == 8
    assert best_rows(12, 8) == 6
    assert best_rows(7, 8) == 7


def test_every_core_has_work() -> None:
    assert default_tiling(_sizes(6, 1500, 1500), AVX512).shares == 1
    assert default_tiling(_sizes(1, 1500, 1500), AVX512).shares == AVX512.cores


@pytest.mark.parametrize("case", SHAPES)
def test_lanes_have_registers_beside_the_sums(case: str) -> None:
    heads, rows, columns, _, _ = SHAPES[case]
    tiling = default_tiling(_sizes(heads, rows, columns), NEON)
    vectors = max(tiling.key_vectors, tiling.value_vectors)
    assert tiling.lanes_read == NEON.lanes
    assert tiling.rows * vectors + tiling.rows + vectors < NEON.registers
    # What the softmax holds of a row, beside the nine constants of its exponential.
    assert tiling.rows_weighed is not None
    assert 2 * tiling.rows_weighed + 9 < NEON.registers
