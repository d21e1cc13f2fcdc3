"""Windows over halves that keep channels apart get halves for weights, where those multiply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.passes.assert_pass import block
from tests.relay_modules import module, var
from tests.schedules.blocked_blocks import NEON
from tvm_fusionx.ecg.block_calls import is_block_call, post_order
from tvm_fusionx.layout.half_products import multiply_halves, why_not_halves

CPU = replace(NEON, multiplies_halves=True)


def _net(kind: str = "float16", weights: str = "float32") -> tvm.IRModule:
    """Return a block of a 3 x 3 window over eight channels."""
    shape = (2, 1, 3, 3, 1, 4)
    numbers = np.random.default_rng(0).standard_normal(shape).astype("float16").astype(weights)
    p, w = var("p", 1, 2, 5, 7, 4, dtype=kind), var("w", *shape, dtype=weights)
    made = relay.nn.contrib_depthwise_conv2d_nchwc(
        *(relay.cast(each, "float32") for each in (p, w)),
        *((1, 1), (1,) * 4, (1, 1), 8, 8, (3, 3), "NCHW4c", "OIHW1i4o", "NCHW4c"),
    )
    given = var("x", 1, 2, 5, 7, 4, dtype=kind), relay.const(numbers)
    return relay.transform.InferType()(module(block("b", [p, w], relay.cast(made, kind))(*given)))


def _call(mod: tvm.IRModule) -> Any:
    (call,) = filter(is_block_call, post_order(mod["main"].body))
    return call


def test_weights_become_halves_and_keep_their_numbers() -> None:
    before = _net()
    after = relay.transform.InferType()(
        tvm.IRModule.from_expr(multiply_halves(before["main"], CPU))
    )
    old, new = (_call(mod).args[1].data.numpy() for mod in (before, after))
    assert new.dtype == "float16"
    assert np.array_equal(old, new.astype("float32"))
    assert why_not_halves(_call(after), CPU) == "its weights are halves"


@pytest.mark.parametrize(
    ("mod", "cpu", "reason"),
    [
        (_net(), NEON, "does not add products of halves"),
        (_net("float32"), CPU, "does not lie in memory as float16"),
        (_net(weights="float16"), CPU, "its weights are halves"),
        (
            relay.transform.InferType()(
                module(block("b", [var("p", 2)], var("p", 2))(var("x", 2)))
            ),
            CPU,
            "0 windows",
        ),
    ],
)
def test_others_stay_as_they_are(mod: tvm.IRModule, cpu: Any, reason: str) -> None:
    assert reason in str(why_not_halves(_call(mod), cpu))
    assert tvm.ir.structural_equal(multiply_halves(mod["main"], cpu), mod["main"])
