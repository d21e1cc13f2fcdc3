"""The operator as plain TVM computes it: numpy's numbers."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay, te

from tests.relay_modules import REASSOCIATING, assert_close, module, operator_names, var
from tests.reuse_layers import Numbers, drawn, unscheduled
from tests.verified_kernels import assert_kernel
from tvm_fusionx.expressions.similar_products import (
    REUSE,
    REUSED,
    expression,
    register_similar_products,
    reuse_layer_of,
)
from tvm_fusionx.report.bench.plain_tvm import run_once


@pytest.mark.parametrize("seed", range(200, 204))
def test_number_by_number(seed: int) -> None:
    layer = drawn(seed)
    numbers = Numbers.drawn(layer)
    operands, result = numbers.operands(layer), numbers.expected(layer)
    assert_kernel(unscheduled(layer, numbers), "llvm", operands, [result], REASSOCIATING)


def test_a_whole_module_by_plain_tvm() -> None:
    layer = drawn(6)
    data, *others = Numbers.drawn(layer).operands(layer)
    register_similar_products()
    attrs = tvm.ir.make_node("DictAttrs", **{REUSED: layer.text()})
    operands = [var("x", *data.shape), *map(relay.const, others)]
    mod = module(relay.Call(relay.op.get(REUSE), operands, attrs))
    assert operator_names(mod["main"].body) == [REUSE]
    assert reuse_layer_of(mod["main"].body.attrs) == layer
    found = run_once(relay.build(mod, "llvm"), {"x": data})
    assert_close(found, [Numbers.drawn(layer).expected(layer)], REASSOCIATING)


def test_the_stage_tells_its_layer_and_operands() -> None:
    layer = drawn(1)
    operands = [
        te.placeholder(each.shape, str(each.dtype), f"p{at}")
        for at, each in enumerate(Numbers.drawn(layer).operands(layer))
    ]
    made = expression(layer, operands)
    assert np.array_equal(list(map(int, made.shape)), layer.result_shape)
    assert reuse_layer_of(made.op.attrs) == layer
