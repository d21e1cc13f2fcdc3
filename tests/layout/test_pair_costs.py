from __future__ import annotations

from typing import Any

import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.layout.pair_costs import (
    pair_float_cycles,
    pair_integer_cycles,
    why_pair_slower_on_integers,
)
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.rewrite.quantized_pairs import sides_of
from tvm_fusionx.schedules import describe_cpu, resolve_target

VNNI, AVX2 = "llvm -mcpu=znver4 -num-cores=2", "llvm -mcpu=haswell -num-cores=2"


def _cpu(target: str) -> Cpu:
    return describe_cpu(resolve_target(target))


def _node(
    left: tuple[int, ...], right: tuple[int, ...], zeros: tuple[int, int] = (7, 3), **how: Any
) -> Node:
    x, y = (
        relay.qnn.op.dequantize(
            var(name, *shape, dtype="uint8"), relay.const(0.5), relay.const(zero, "int32")
        )
        for name, shape, zero in (("x", left, zeros[0]), ("y", right, zeros[1]))
    )
    if how.get("turned"):
        y = relay.transpose(y, (0, 2, 1))
    return graph(relay.nn.batch_matmul(x, y)).calls()[-1]


# The scores of twelve heads of 128 places, and what they weigh.
SCORES = _node((12, 128, 32), (12, 128, 32))


# What was faster when both were measured on Zen 4, as which it was built with and without VNNI.
@pytest.mark.parametrize("target", [VNNI, AVX2])
def test_scores_are_products_of_integers(target: str) -> None:
    assert why_pair_slower_on_integers(SCORES, _cpu(target)) is None


def test_one_row_does_not_pay_for_turning_its_columns() -> None:
    few = _node((1, 1, 64), (1, 64, 512), turned=True)
    reason = why_pair_slower_on_integers(few, _cpu(VNNI))
    assert reason is not None
    assert "cycles of a core by the estimate" in reason


def test_zero_points_and_turned_columns_cost() -> None:
    cpu = _cpu(VNNI)
    centred = _node((12, 128, 32), (12, 128, 32), zeros=(0, 128))
    turned = _node((12, 128, 32), (12, 32, 128), turned=True)
    cycles = [pair_integer_cycles(node, sides_of(node), cpu) for node in (centred, SCORES, turned)]
    assert cycles == sorted(cycles)
    assert len(set(cycles)) == 3
    assert pair_float_cycles(SCORES, cpu) == pair_float_cycles(turned, cpu)
