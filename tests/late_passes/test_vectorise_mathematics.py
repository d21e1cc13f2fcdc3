"""Polynomials take the place of libm calls, except where a guard protects what they read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, tir

from tests.relay_modules import TARGET, var
from tests.schedules.blocked_blocks import as_block, dense, unscheduled
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target, schedule


def test_no_libm_call_is_left() -> None:
    target = resolve_target(TARGET)
    x = var("x", 64)
    body = relay.exp(relay.tanh(relay.erf(relay.sigmoid(x))))
    with lowering(target):
        library = relay.build(as_block(body), target)
    text = library.get_lib().get_source("ll")
    assert not [name for name in ("@expf", "@tanhf", "@erff", "llvm.exp") if name in text]


def _stored_lanes(func: tir.PrimFunc) -> set[int]:
    """Return the lanes of what a scheduled block stores, lowered."""
    target = resolve_target(TARGET)
    with lowering(target), target:
        lowered = tvm.lower(func)
    found: set[int] = set()

    def visit(store: Any) -> None:
        found.add(tvm.DataType(store.value.dtype).lanes)

    tir.stmt_functor.ir_transform(lowered["main"].body, visit, None, ["tir.BufferStore"])
    return found


@pytest.mark.parametrize("function", [relay.erf, relay.tanh, relay.exp])
def test_functions_are_of_whole_vectors_beside_an_operand(function: Any) -> None:
    # LLVM left the loop over eight channels of such an erf as it was: 0.74 of the time.
    body = dense(16, (1, 12), 16, (1, 3), post=lambda y: function(y) + var("p", 1, 2, 1, 10, 8))
    made = schedule(unscheduled(body, TARGET), resolve_target(TARGET), template="conv2d")
    assert (made.template, made.fallback_reason) == ("conv2d", None)
    assert 1 not in _stored_lanes(made.func)


@pytest.mark.parametrize(
    ("function", "reference"), [(relay.exp, np.exp), (relay.erf, np.vectorize(math.erf))]
)
def test_a_guarded_argument_is_not_read_early(function: Any, reference: Any) -> None:
    x = np.linspace(-1, 1, 24, dtype="float32").reshape(1, 1, 4, 6)
    data = var("x", 1, 1, 4, 6)
    body = relay.nn.pad(function(data), ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.pad(reference(x), ((0, 0), (0, 0), (1, 1), (1, 1)))
    target = resolve_target(TARGET)
    with lowering(target):
        library = relay.build(as_block(body), target)
    (found,) = run_once(library, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-6)
