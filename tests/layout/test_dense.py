"""Matrix products packed on the graph: same numbers, weights in panels, refusals with a reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import (
    REASSOCIATING,
    const,
    graph,
    module,
    operator_names,
    var,
)
from tests.sampled import few_fast
from tests.verified_kernels import assert_same_numbers
from tvm_fusionx.ecg import to_relay
from tvm_fusionx.layout import pack_dense
from tvm_fusionx.layout.dense import pack_weights, why_not_pack
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.register_tile import panel_width

CPU = Cpu(lanes=4, registers=16, cores=2)
ARM = Cpu(lanes=4, registers=32, cores=1, multiplies_by_lane=True, compares_halves=True)

PRODUCTS: dict[str, Callable[[], relay.Expr]] = {
    "dense": lambda: relay.nn.dense(var("x", 5, 8), const(24, 8)),
    "dense with padded columns": lambda: relay.nn.dense(var("x", 5, 8), const(23, 8)),
    "matmul": lambda: relay.nn.matmul(var("x", 5, 8), const(8, 24)),
    "transposed matmul": lambda: relay.nn.matmul(var("x", 5, 8), const(24, 8), transpose_b=True),
    "batch_matmul": lambda: relay.nn.batch_matmul(var("x", 2, 5, 8), const(1, 24, 8)),
    "untransposed batch_matmul": lambda: relay.nn.batch_matmul(
        var("x", 2, 5, 8), const(1, 8, 24), transpose_b=False
    ),
    "one row": lambda: relay.nn.dense(var("x", 1, 8), const(24, 8)),
}


@pytest.mark.parametrize("name", few_fast(PRODUCTS))
def test_packed_product(name: str) -> None:
    mod = module(PRODUCTS[name]())
    packed = graph(mod["main"].body)
    assert pack_dense(packed, CPU) == 1
    packed.prune()
    after = module(to_relay(packed).body)
    assert operator_names(after["main"]).count("nn.contrib_dense_pack") == 1
    assert_same_numbers(after, mod, REASSOCIATING)


def test_packing_again_changes_nothing() -> None:
    packed = graph(PRODUCTS["dense"]())
    pack_dense(packed, CPU)
    assert pack_dense(packed, CPU) == 0


REFUSED: dict[str, Callable[[], relay.Expr]] = {
    "is no matrix product": lambda: relay.exp(var("x", 5, 8)),
    "not constant": lambda: relay.nn.dense(var("x", 5, 8), var("w", 24, 8)),
    "data is transposed": lambda: relay.nn.matmul(var("x", 8, 5), const(8, 24), transpose_a=True),
    "its own weights": lambda: relay.nn.batch_matmul(var("x", 2, 5, 8), const(2, 24, 8)),
    "too few for a panel": lambda: relay.nn.dense(var("x", 5, 8), const(2, 8)),
    "it multiplies int8": lambda: relay.nn.dense(
        var("x", 5, 8, dtype="int8"), const(24, 8, dtype="int8"), out_dtype="int32"
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusal_has_a_reason(reason: str) -> None:
    (node,) = graph(REFUSED[reason]()).calls()
    found = why_not_pack(node, CPU)
    assert found is not None
    assert reason in found


def test_panels_hold_neighbouring_columns() -> None:
    weights = np.arange(12.0).reshape(6, 2)
    packed = pack_weights(weights, 4)
    assert packed.shape == (2, 2, 4)
    np.testing.assert_array_equal(packed[0, 1], weights[:4, 1])
    np.testing.assert_array_equal(packed[1, 0], [8.0, 10.0, 0.0, 0.0])


def test_few_rows_get_wider_panels() -> None:
    assert panel_width(96, 1, CPU) >= panel_width(96, 64, CPU)


def test_a_call_without_operands_is_no_product() -> None:
    made = graph(relay.add(var("x", 2, 3), relay.zeros((2, 3), "float32")))
    (zeros,) = (node for node in made.calls() if not node.operands)
    assert why_not_pack(zeros, CPU) == "zeros is no matrix product"


@pytest.mark.parametrize(
    ("product", "width", "of_halves"),
    [
        (lambda: relay.nn.dense(var("x", 128, 384), const(1152, 384)), 12, 24),
        (lambda: relay.nn.dense(var("x", 16, 24), const(8, 24)), 8, 8),
        # No panel of eight columns without more padding than pays.
        (lambda: relay.nn.dense(var("x", 16, 24), const(4, 24)), 4, 4),
    ],
    ids=["many columns", "eight", "four"],
)
def test_panels_of_vectors_of_halves(
    product: Callable[[], relay.Expr], width: int, of_halves: int
) -> None:
    for halves, expected in ((False, width), (True, of_halves)):
        packed = graph(product())
        assert pack_dense(packed, ARM, halves=halves) == 1
        (node,) = (each for each in packed.calls() if each.op == "nn.contrib_dense_pack")
        assert node.operands[1].shape[-1] == expected
        assert node.attrs["weight_layout"] == f"NC{expected}n"
