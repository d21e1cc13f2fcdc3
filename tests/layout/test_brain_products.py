"""Which products of bfloat16 get weights in groups, and that the weights stay the numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relay

from tests.passes.assert_pass import block
from tests.relay_modules import module, var
from tests.schedules.blocked_blocks import NEON
from tvm_fusionx.ecg.block_calls import is_block_call, post_order
from tvm_fusionx.layout.brain_products import (
    multiply_brains,
    panels_in_groups,
    taps_in_groups,
    why_not_brains,
)
from tvm_fusionx.processors.brains import BRAIN, MATRICES

CPU = replace(NEON, brain_dot=MATRICES)
ROWS, TERMS, WIDTH, PANELS = 16, 8, 12, 2


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def _net(weights: Any, kind: str = BRAIN, terms: int = TERMS, *, twice: bool = False) -> Any:
    """Return a block that multiplies its operand, stored in some type, by packed weights."""
    p = var("p", ROWS, terms, dtype=kind)
    w = var("w", *weights.shape)
    body = relay.nn.contrib_dense_pack(
        relay.cast(p, "float32"), w, f"NC{weights.shape[-1]}n", None, "float32"
    )
    if twice:
        body = body + relay.reshape(relay.sum(w), (1, 1))
    operand = relay.Constant(tvm.nd.array(weights))
    made = block("b", [p, w], relay.cast(body, kind))(var("x", ROWS, terms, dtype=kind), operand)
    return module(made)


def _call(mod: tvm.IRModule) -> Any:
    typed = relay.transform.InferType()(mod)["main"]
    (call,) = filter(is_block_call, post_order(typed.body))
    return call


def test_weights_lie_in_groups_of_bfloat16() -> None:
    weights = _numbers(PANELS, TERMS, WIDTH)
    function = multiply_brains(relay.transform.InferType()(_net(weights))["main"], CPU)
    call = _call(tvm.IRModule.from_expr(function))
    found = call.args[1].data
    assert found.dtype == BRAIN
    panels, groups, width, depth = (int(each) for each in found.shape)
    assert (panels * width, groups * depth, depth) == (PANELS * WIDTH, TERMS, 4)
    assert why_not_brains(call, CPU) is not None


@pytest.mark.parametrize("rows", [1, 16])
def test_panels_keep_their_numbers(rows: int) -> None:
    panels = _numbers(PANELS, TERMS, WIDTH)
    found = panels_in_groups(panels, rows, CPU)
    by_column = found.transpose(0, 2, 1, 3).reshape(PANELS * WIDTH, TERMS)
    assert np.array_equal(by_column, panels.transpose(0, 2, 1).reshape(PANELS * WIDTH, TERMS))


def test_taps_keep_their_numbers() -> None:
    weights = _numbers(3, 2, 3, 3, 8, 4).astype(ml_dtypes.bfloat16)
    found = taps_in_groups(weights, CPU)
    assert found.shape == (3, 2, 3, 3, 2, 4, 4)
    assert np.array_equal(found.swapaxes(-1, -2).reshape(weights.shape), weights)


@pytest.mark.parametrize(
    ("mod", "cpu", "reason"),
    [
        (_net(_numbers(2, TERMS, 12)), NEON, "does not multiply matrices"),
        (_net(_numbers(2, TERMS, 12), "float16"), CPU, "does not lie in memory as bfloat16"),
        (_net(_numbers(2, TERMS, 12), twice=True), CPU, "something else reads"),
        (_net(_numbers(2, TERMS, 6)), CPU, "whole vectors"),
        (_net(_numbers(2, 6, 12), terms=6), CPU, "6 terms are no groups of 4"),
        (module(block("b", [var("p", 2)], var("p", 2))(var("x", 2))), CPU, "0 products"),
    ],
)
def test_others_stay_as_they_are(mod: tvm.IRModule, cpu: Any, reason: str) -> None:
    call = _call(mod)
    assert reason in str(why_not_brains(call, cpu))
    main = relay.transform.InferType()(mod)["main"]
    assert tvm.ir.structural_equal(multiply_brains(main, cpu), main)


def test_weights_that_are_no_constant_stay() -> None:
    p, w = var("p", ROWS, TERMS, dtype=BRAIN), var("w", 2, TERMS, 12)
    product = relay.nn.contrib_dense_pack(relay.cast(p, "float32"), w, "NC12n", None, "float32")
    made = block("b", [p, w], product)(var("x", ROWS, TERMS, dtype=BRAIN), var("y", 2, TERMS, 12))
    assert why_not_brains(_call(module(made)), CPU) == "its weights are not constant"
