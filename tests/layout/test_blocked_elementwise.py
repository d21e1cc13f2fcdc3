"""Elementwise operators on blocked tensors: how each operand is brought to meet the others."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.layout.test_convolution import Avx, module_of
from tests.relay_modules import (
    REASSOCIATING,
    const,
    graph,
    module,
    var,
)
from tests.sampled import few_fast
from tests.verified_kernels import assert_same_numbers
from tvm_fusionx.ecg import from_relay
from tvm_fusionx.layout import pack_convolutions
from tvm_fusionx.layout.blocked_elementwise import all_blocked


def _conv(outputs: int = 8) -> relay.Expr:
    return relay.nn.conv2d(var("x", 2, 3, 5, 4), const(outputs, 3, 1, 1))


OPERANDS = {
    "scalar": const(),
    "one number": const(1),
    "one a channel": const(8, 1, 1),
    "one a column": const(4),
    "one a pixel, computed": var("r", 2, 1, 5, 4),
    "one a column, computed": var("r", 4),
    "whole image": const(2, 8, 5, 4),
    "whole image, computed": var("r", 2, 8, 5, 4),
}


@pytest.mark.parametrize("name", few_fast(OPERANDS, 1))
def test_an_operand_of_any_shape_meets_a_blocked_one(name: str) -> None:
    body = relay.maximum(OPERANDS[name], _conv())
    made = from_relay(module(body)["main"])
    assert pack_convolutions(made, Avx()) == 1
    maximum = next(node for node in made.calls() if node.op == "maximum")
    assert maximum.outputs[0].shape == (2, 1, 5, 4, 8)
    assert_same_numbers(module_of(made), module(body), REASSOCIATING)


def test_a_tensor_of_another_rank_keeps_the_image() -> None:
    made = from_relay(module(relay.add(_conv(), var("r", 1, 2, 8, 5, 4)))["main"])
    pack_convolutions(made, Avx())
    add = next(node for node in made.calls() if node.op == "add")
    assert add.outputs[0].shape == (1, 2, 8, 5, 4)


def test_all_or_nothing_is_blocked() -> None:
    made = graph(relay.nn.relu(var("x", 1, 8, 2, 2)))
    value = made.calls()[0][0]
    assert all_blocked([value], lambda _: None) is None
