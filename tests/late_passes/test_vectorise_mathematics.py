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
from tvm_fusionx.late_passes.vectorise_mathematics import vectorise_mathematics
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


def _kernel(kind: tir.ForKind) -> tir.PrimFunc:
    """Two stores of four functions each before, in and behind a loop of 64 iterations."""
    x, y = (tir.decl_buffer((66, 2), name=name) for name in "xy")

    def stores(row: Any) -> Any:
        def value(column: int) -> Any:
            loaded = tir.BufferLoad(x, [row, column])
            return tir.exp(tir.tanh(loaded)) + tir.sigmoid(tir.erf(loaded))

        return tir.SeqStmt([tir.BufferStore(y, value(c), [row, c]) for c in range(2)])

    row = tir.Var("row", "int32")
    loop = tir.For(row, 0, 64, kind, stores(row + 1))
    places = [tir.Var(name, "handle") for name in "xy"]
    body = tir.SeqStmt([stores(0), loop, stores(65)])
    return tir.PrimFunc(places, body, buffer_map=dict(zip(places, (x, y), strict=True)))


def test_functions_of_functions_are_right_in_every_store() -> None:
    """What was made for one store is used for the next, in the same buffers."""
    x = tir.decl_buffer((2,), name="x")
    y = tir.decl_buffer((2,), name="y")
    a, b = (tir.BufferLoad(x, [n]) for n in range(2))

    def square(value: Any) -> Any:
        return tir.pow(value, tir.FloatImm("float32", 2.0))

    first = tir.BufferStore(y, square(b) + tir.exp(square(a)), [0])
    second = tir.BufferStore(y, tir.exp(square(b)) + square(a), [1])
    places = [tir.Var(name, "handle") for name in "xy"]
    buffers = dict(zip(places, (x, y), strict=True))
    func = tir.PrimFunc(places, tir.SeqStmt([first, second]), buffer_map=buffers)
    found = tvm.nd.empty((2,))
    with lowering(resolve_target(TARGET)):
        tvm.build(func, TARGET)(tvm.nd.array(np.array([0.5, 2.0], "float32")), found)
    expected = [4 + math.exp(0.25), math.exp(4) + 0.25]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def _held(stmt: Any) -> int:
    count = 0

    def visit(_: Any) -> None:
        nonlocal count
        count += 1

    tir.stmt_functor.ir_transform(stmt, visit, None, ["tir.Allocate"])
    return count


@pytest.mark.parametrize("kind", [tir.ForKind.SERIAL, tir.ForKind.PARALLEL])
def test_stores_hold_their_values_in_the_same_buffers_and_threads_have_their_own(
    kind: tir.ForKind,
) -> None:
    made = vectorise_mathematics()(tvm.IRModule({"main": _kernel(kind)}))["main"]
    loops: list[Any] = []
    tir.stmt_functor.ir_transform(made.body, loops.append, None, ["tir.For"])
    (loop,) = loops
    inside = _held(loop.body)
    outside = _held(made.body) - inside
    assert outside > 0
    assert inside == (outside if kind == tir.ForKind.PARALLEL else 0)
    x = np.linspace(-3, 3, 132, dtype="float32").reshape(66, 2)
    y = tvm.nd.empty(x.shape)
    with lowering(resolve_target(TARGET)):
        tvm.build(_kernel(kind), TARGET)(tvm.nd.array(x), y)
    erf = np.vectorize(math.erf)
    expected = np.exp(np.tanh(x)) + 1 / (1 + np.exp(-erf(x)))
    np.testing.assert_allclose(y.numpy(), expected, rtol=2e-6)
