"""The operator as plain TVM computes it: numpy's numbers, and types that are refused."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.recurrent_layers import Numbers, call_of, drawn, expected, unscheduled
from tests.relay_modules import REASSOCIATING, assert_close, module, operator_names, var
from tests.verified_kernels import assert_kernel
from tvm_fusionx.operators.recurrent_layer import GRU, LSTM, RNN, Layer
from tvm_fusionx.operators.recurrent_operator import RECURRENT, layer_of, recurrent
from tvm_fusionx.report.bench.plain_tvm import run_once


@pytest.mark.parametrize(("seed", "kind"), [(1, LSTM), (2, GRU), (3, GRU), (4, RNN), (5, LSTM)])
def test_number_by_number(seed: int, kind: str) -> None:
    layer = drawn(seed, kind)
    numbers = Numbers.drawn(layer)
    func = unscheduled(layer, numbers)
    operands = numbers.operands(layer)
    assert_kernel(func, "llvm", operands, expected(layer, numbers), REASSOCIATING)


def test_a_whole_module_by_plain_tvm() -> None:
    layer = drawn(6, LSTM)
    numbers = Numbers.drawn(layer)
    mod = module(call_of(layer, numbers))
    assert operator_names(mod["main"].body) == [RECURRENT]
    found = run_once(relay.build(mod, "llvm"), {"x": numbers.operands(layer)[0]})
    assert_close(found, expected(layer, numbers), REASSOCIATING)


def test_the_call_tells_its_layer() -> None:
    layer = drawn(7)
    call = call_of(layer, Numbers.drawn(layer)).fields[0].tuple_value
    assert layer_of(call.attrs) == layer
    text = tvm.ir.save_json(call)
    assert layer_of(tvm.ir.load_json(text).attrs) == layer


def test_one_zero_may_be_two_states() -> None:
    layer = Layer(LSTM, 2, 1, 4, (False,), drawn(1, LSTM).functions)
    numbers = Numbers.drawn(layer)
    shares, weights, bias, h, *_ = numbers.operands(layer)
    zero = relay.const(np.zeros_like(h))
    lengths = relay.const(numbers.lengths)
    call = recurrent(
        layer,
        [var("x", *shares.shape), relay.const(weights), relay.const(bias), zero, zero, lengths],
    )
    found = run_once(relay.build(module(relay.Tuple(call)), "llvm"), {"x": shares})
    alike = Numbers(numbers.shares, numbers.weights, numbers.bias, h * 0, h * 0, numbers.lengths)
    assert_close(found, expected(layer, alike), REASSOCIATING)
