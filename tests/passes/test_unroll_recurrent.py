"""Layers written out: the same numbers, none left; other modules stay as they are."""

from __future__ import annotations

import tvm
from tvm import relay

from tests.recurrent_layers import Numbers, call_of, drawn, expected, folded
from tests.relay_modules import REASSOCIATING, assert_close, module, operator_names, var
from tvm_fusionx.build.pipeline import phases
from tvm_fusionx.operators.recurrent_layer import LSTM
from tvm_fusionx.operators.recurrent_operator import RECURRENT
from tvm_fusionx.passes import UnrollRecurrent


def test_a_layer_is_unrolled() -> None:
    layer = drawn(1, LSTM)
    numbers = Numbers.drawn(layer)
    mod = module(relay.Tuple([relay.negative(each) for each in call_of(layer, numbers).fields]))
    found = UnrollRecurrent()(mod)
    assert RECURRENT not in operator_names(found["main"].body)
    x = relay.const(numbers.operands(layer)[0])
    made = folded(relay.bind(found["main"].body, {found["main"].params[0]: x}))
    assert_close(made, [-each for each in expected(layer, numbers)], REASSOCIATING)


def test_others_stay_as_they_are() -> None:
    mod = module(relay.exp(var("x", 4)))
    assert tvm.ir.structural_equal(UnrollRecurrent()(mod), mod)


def test_only_what_is_no_cpu_unrolls() -> None:
    names = [str(each.info.name) for each in _passes("llvm")]
    assert "tvm_fusionx.UnrollRecurrent" not in names
    assert "tvm_fusionx.UnrollRecurrent" in [str(each.info.name) for each in _passes("opencl")]


def _passes(target: str) -> list[tvm.transform.Pass]:
    return [each for phase in phases(target).phases for each in phase.passes]
