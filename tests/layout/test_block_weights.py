"""Weights in blocks, packed in panels: shared by all who read them, refusals with a reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph, module, var
from tests.schedules.blocked_blocks import AVX512, NEON
from tests.schedules.packed_blocks import drawn, product
from tvm_fusionx.ecg import to_relay
from tvm_fusionx.expressions.block_weights import dense, rounded_dense, rows
from tvm_fusionx.gguf.block_tensor import BlockTensor
from tvm_fusionx.layout.block_weights import (
    in_panels,
    in_word_panels,
    pack_block_weights,
    panel_width,
    why_not_panels,
)
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.schedules import resolve_target


def _constants(weight: BlockTensor) -> list[relay.Constant]:
    return [relay.const(part, str(part.dtype)) for part in weight.arrays]


def test_a_lookup_and_a_product_share_their_panels() -> None:
    weight = _constants(drawn("Q8_0", 48, 64))
    packed = graph(dense(rows(var("i", 2, dtype="int32"), weight), weight))
    assert pack_block_weights(packed, AVX512) == 2
    packed.prune()
    lookup, multiplied = packed.calls()
    assert lookup.operands[1:] == multiplied.operands[1:]
    assert lookup.operands[1].shape == (3, 2, 32, 16)
    assert pack_block_weights(packed, AVX512) == 0
    shape = module(to_relay(packed).body)["main"].ret_type.shape
    assert [int(extent) for extent in shape] == [2, 48]


def test_words_where_a_processor_multiplies_bytes() -> None:
    cpu = describe_cpu(resolve_target("llvm -mcpu=znver4"))
    weight = _constants(drawn("Q8_0", 48, 64))
    ids = var("i", 2, dtype="int32")

    def packed_shapes(body: relay.Expr, cpu: Cpu) -> list[tuple[int, ...]]:
        packed = graph(body)
        assert pack_block_weights(packed, cpu) == 2
        packed.prune()
        return [node.operands[1].shape for node in packed.calls()]

    body = rounded_dense(rows(ids, weight), weight)
    assert packed_shapes(body, cpu) == [(3, 2, 8, 16, 4)] * 2
    assert packed_shapes(body, AVX512) == [(3, 2, 32, 16)] * 2
    # One that reads floats needs its bytes apart.
    x = var("x", 1, 64)
    both = graph(dense(x, weight) + rounded_dense(x, weight))
    assert pack_block_weights(both, cpu) == 2
    both.prune()
    assert {node.operands[1].shape for node in both.calls()[:2]} == {(3, 2, 32, 16)}


def test_four_bytes_of_a_row_become_a_word() -> None:
    levels = np.arange(8 * 3 * 16).reshape(8, 3, 16)
    words = in_word_panels(levels, 4)
    assert words.shape == (2, 3, 4, 4, 4)
    assert (words[1, 2, 3, 1] == levels[5, 2, 12:]).all()


@pytest.mark.parametrize(("count", "expected"), [(48, 16), (40, 8), (20, 4), (6, 2), (7, 1)])
def test_panels_are_vectors_or_parts_of_them(count: int, expected: int) -> None:
    assert panel_width(count, AVX512) == expected
    assert panel_width(count, NEON) == min(expected, 4)


def test_a_row_becomes_a_lane() -> None:
    part = np.arange(2 * 4 * 3 * 5).reshape(8, 3, 5)
    assert in_panels(part, 4).shape == (2, 3, 5, 4)
    assert (in_panels(part, 4)[1, 2, 4] == part[4:, 2, 4]).all()


REFUSED: dict[str, Callable[[], relay.Expr]] = {
    "exp reads no weight in blocks": lambda: relay.exp(var("x", 4)),
    "its weight is not constant": lambda: product(1, drawn("Q4_0", 16, 32).arrays, 32),
    "6 rows fill no panels": lambda: dense(var("x", 1, 32), _constants(drawn("Q4_0", 6, 32))),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusals(reason: str) -> None:
    found = graph(REFUSED[reason]())
    assert why_not_panels(found.calls()[0], AVX512) == reason
    assert pack_block_weights(found, AVX512) == 0
