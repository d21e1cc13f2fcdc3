"""What a block's product reads, and other weights in the place of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.passes.assert_pass import block
from tests.relay_modules import module, var
from tvm_fusionx.ecg.block_calls import is_block_call, post_order
from tvm_fusionx.layout.block_operands import (
    calls_of,
    parameter_of,
    why_not_stored,
    with_weights,
)

DENSE = "nn.dense"


def _call(*, kind: str = "float16", constant: bool = True, twice: bool = False) -> Any:
    """Return a block's call that multiplies what it is given by weights."""
    p, w = var("p", 2, 3, 4, dtype=kind), var("w", 5, 4)
    body = relay.nn.dense(relay.reshape(relay.cast(p, "float32"), (6, 4)), w)
    if twice:
        body = body + relay.sum(w)
    weights = relay.const(np.ones((5, 4), "float32")) if constant else var("y", 5, 4)
    mod = module(block("b", [p, w], body)(var("x", 2, 3, 4, dtype=kind), weights))
    main = relay.transform.InferType()(mod)["main"]
    (call,) = filter(is_block_call, post_order(main.body))
    return call


def test_operands_are_found_through_casts_and_shapes() -> None:
    call = _call()
    (product,) = calls_of(call.op, DENSE)
    assert [parameter_of(each) for each in product.args] == list(call.op.params)
    assert why_not_stored(call, product, "float16") is None


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"kind": "float32"}, "does not lie in memory as float16"),
        ({"constant": False}, "its weights are not constant"),
        ({"twice": True}, "something else reads its weights"),
    ],
)
def test_why_a_product_is_not_one_of_halves(how: dict[str, Any], reason: str) -> None:
    call = _call(**how)
    (product,) = calls_of(call.op, DENSE)
    assert reason in str(why_not_stored(call, product, "float16"))


def test_other_weights_take_the_place() -> None:
    call = _call()
    (product,) = calls_of(call.op, DENSE)
    halves = tvm.nd.array(np.full((5, 4), 2, "float16"))
    found = with_weights(
        call,
        product,
        halves,
        lambda data, weights: relay.nn.dense(data, relay.cast(weights, "float32")),
    )
    assert found.args[1].data.dtype == "float16"
    typed = relay.transform.InferType()(module(found))["main"]
    (changed,) = filter(is_block_call, post_order(typed.body))
    assert str(changed.op.params[1].checked_type.dtype) == "float16"
    assert tvm.ir.structural_equal(changed.checked_type, call.checked_type)
