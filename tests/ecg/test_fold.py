from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import EXACT, assert_close, const, graph, module, run_plain, var
from tvm_fusionx.ecg import Graph, fold
from tvm_fusionx.ecg.fold import can_fold, fold_constants

a, b = const(3, 4, seed=1), const(3, 4, seed=2)
positive = relay.const(np.random.default_rng(3).uniform(0.5, 2, (3, 4)).astype("float32"))
integers = relay.const(np.array([[7, -7, 5, -1]], "int32"))

CALLS: dict[str, Callable[[], relay.Expr]] = {
    "abs": lambda: relay.abs(a),
    "add": lambda: relay.add(a, b),
    "broadcast_to": lambda: relay.broadcast_to(a, (2, 3, 4)),
    "cast": lambda: relay.cast(a * relay.const(5.0), "int32"),
    "exp": lambda: relay.exp(a),
    "expand_dims": lambda: relay.expand_dims(a, 1, 2),
    "maximum": lambda: relay.maximum(a, b),
    "minimum": lambda: relay.minimum(a, b),
    "multiply": lambda: relay.multiply(a, b),
    "negative": lambda: relay.negative(a),
    "nn.batch_flatten": lambda: relay.nn.batch_flatten(relay.reshape(a, (2, 2, 3))),
    "power": lambda: relay.power(positive, b),
    "reshape": lambda: relay.reshape(a, (-1, 6)),
    "rsqrt": lambda: relay.rsqrt(positive),
    "sqrt": lambda: relay.sqrt(positive),
    "squeeze": lambda: relay.squeeze(relay.expand_dims(a, 0)),
    "subtract": lambda: relay.subtract(a, b),
    "transpose": lambda: relay.transpose(a),
}


def _folded(found: Graph) -> list[np.ndarray]:
    fold_constants(found)
    return [value.array for value in found.outputs]


def test_numpy_agrees_with_tvm() -> None:
    exprs = [build() for build in CALLS.values()]
    assert_close(_folded(graph(*exprs)), run_plain(module(*exprs), {}), EXACT)


@pytest.mark.parametrize(
    "expr",
    [
        relay.divide(integers, relay.const(np.array([[2, 2, -3, 2]], "int32"))),
        relay.strided_slice(a, [0, 3], [3, 0], [1, -1]),
        relay.split(a, 2, axis=1).astuple(),
        relay.nn.softmax(a),
        relay.nn.dense(a, b),
    ],
    ids=["integer division", "slice", "split", "softmax", "dense"],
)
def test_what_numpy_is_not_trusted_with_is_evaluated_by_tvm(expr: relay.Expr) -> None:
    assert_close(_folded(graph(expr)), run_plain(module(expr), {}), EXACT)


def test_folding_goes_on_upwards_and_stops_at_inputs() -> None:
    found = graph(relay.exp(a + b) * var("x", 3, 4))
    assert fold_constants(found) == 2
    assert [node.op for node in found.calls()] == ["multiply"]


def test_a_constant_that_would_grow_too_large_stays_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "LARGEST_FOLDED_BYTES", 64)
    found = graph(relay.broadcast_to(a, (2, 3, 4)))
    assert fold_constants(found) == 0
    assert [node.op for node in found.calls()] == ["broadcast_to"]


def test_a_large_constant_that_does_not_grow_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "LARGEST_FOLDED_BYTES", 1)
    assert fold_constants(graph(relay.exp(a))) == 1


@pytest.mark.parametrize(
    "expr",
    [
        relay.random.threefry_split(relay.random.threefry_key(1)),
        relay.cumsum(a, axis=0),
        relay.Call(relay.Function([], relay.exp(a)), []),
    ],
    ids=["random state", "extern kernel", "called function"],
)
def test_what_is_no_pure_operator_stays(expr: relay.Expr) -> None:
    found = graph(expr)
    assert not any(can_fold(node) for node in found.calls())
    assert fold_constants(found) == 0


def test_what_tvm_cannot_evaluate_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise tvm.TVMError("no such schedule")

    monkeypatch.setattr(relay.transform, "FoldConstant", fail)
    found = graph(relay.log2(a))
    with caplog.at_level("INFO"):
        assert fold_constants(found) == 0
    assert "log2 on constants stays in the graph: no such schedule" in caplog.text
