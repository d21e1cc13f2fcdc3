"""A layer step by step: numpy's numbers of every kind."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.recurrent_layers import Numbers, drawn, expected, folded
from tests.relay_modules import REASSOCIATING, assert_close
from tvm_fusionx.operators.recurrent_layer import GRU, LSTM, RNN
from tvm_fusionx.rewrite.unrolled_recurrent import unrolled


@pytest.mark.parametrize(
    ("seed", "kind"), [(11, LSTM), (13, GRU), (14, GRU), (15, RNN), (16, LSTM), (18, GRU)]
)
def test_numbers(seed: int, kind: str) -> None:
    layer = drawn(seed, kind)
    numbers = Numbers.drawn(layer)
    constants = [relay.const(each, str(each.dtype)) for each in numbers.operands(layer)]
    found = folded(unrolled(layer, constants))
    assert_close(found, expected(layer, numbers), REASSOCIATING)
