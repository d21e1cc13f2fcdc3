from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import TARGET, graph, module, var
from tvm_fusionx.build import pipeline
from tvm_fusionx.build.pipeline import phases
from tvm_fusionx.build.product_times import ProductTimer, layer_module
from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.errors import TargetError
from tvm_fusionx.expressions.round_even import register_rounding
from tvm_fusionx.fusion.device_costs import DEFAULT_COSTS
from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.passes import RewriteQuantized
from tvm_fusionx.passes.rewrite_quantized import rewrite_quantized
from tvm_fusionx.rewrite.quantized import ROUND_EVEN, QuantizedData

DATA = QuantizedData("uint8", 7)


def _dequantized(x: Any, zero: int, **how: Any) -> Any:
    return relay.qnn.op.dequantize(x, relay.const(0.5), relay.const(zero, "int32"), **how)


def _layer(x: Any, outputs: int = 16) -> Any:
    """Return a layer of bytes to bytes."""
    register_rounding()
    weights = np.random.default_rng(0).integers(
        -127, 128, (outputs, int(x.type_annotation.shape[1]))
    )
    product = relay.nn.dense(
        _dequantized(x, 7), _dequantized(relay.const(weights.astype("int8")), 0)
    )
    shifted = relay.nn.relu(product + relay.const(np.ones(outputs, "float32")))
    rounded = relay.Call(relay.op.get(ROUND_EVEN), [shifted / relay.const(4.0)])
    return relay.cast(relay.clip(rounded, 0, 255), "uint8")


X = var("x", 4, 8, dtype="uint8")


def _product(found: Graph) -> Node:
    return next(node for node in found.calls() if node.op == "nn.dense")


class Clock:
    """Stands for this machine: what a program takes is known by what it multiplies."""

    def __init__(self, integers: float, floats: float) -> None:
        self.given = {"integers": integers, "floats": floats}
        self.asked: list[str] = []

    def timer(self, folder: Path) -> ProductTimer:
        def passes(chosen: RewriteQuantized) -> Any:
            kind = "integers" if chosen.why_slower(None, None, DATA) is None else "floats"
            self.asked.append(kind)
            return tvm.transform.Sequential([])

        def time(_: Any, mod: tvm.IRModule) -> float:
            return self.given[self.asked[-1]]

        database = ProfileDatabase(folder / "profiles.sqlite")
        return ProductTimer(tvm.target.Target("llvm"), database, passes, time)


def test_a_layer_reaches_from_bytes_to_bytes() -> None:
    found = graph(_dequantized(_layer(X), 0) * relay.const(2.0))
    main = layer_module(found, _product(found))["main"]
    (read,) = main.params
    assert (read.checked_type.dtype, main.ret_type.dtype) == ("uint8", "uint8")
    assert "multiply" not in main.astext(show_meta_data=False)


def test_a_layer_ends_where_others_read_it() -> None:
    weights = relay.const(np.ones((4, 8), "int8"))
    product = relay.nn.dense(_dequantized(X, 7), _dequantized(weights, 0))
    found = graph(relay.nn.relu(product) + product)
    assert layer_module(found, _product(found))["main"].ret_type.dtype == "float32"


def test_the_faster_way_is_taken_and_remembered(tmp_path: Path) -> None:
    found = graph(_layer(X))
    clock = Clock(integers=9.0, floats=6.0)
    reason = clock.timer(tmp_path)(found, _product(found), DATA)
    assert reason == "9.0 us measured on integers, and 6.0 us on floats"
    assert clock.asked == ["integers", "floats"]
    other = Clock(integers=1.0, floats=2.0)
    # The database knows: nothing is measured again.
    assert other.timer(tmp_path)(found, _product(found), DATA) == reason
    assert other.asked == []
    assert other.timer(tmp_path / "new")(found, _product(found), DATA) is None


def test_integers_that_cannot_run_are_not_taken(tmp_path: Path) -> None:
    found = graph(_layer(X))
    clock = Clock(integers=math.inf, floats=6.0)
    assert "cannot be built" in str(clock.timer(tmp_path)(found, _product(found), DATA))


@pytest.mark.slow
def test_both_are_built_and_run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "calibrated_costs", lambda _: DEFAULT_COSTS)
    target = tvm.target.Target(TARGET)
    order = phases(TARGET, measure=tmp_path / "profiles.sqlite")
    (chosen,) = order.phase("quantized").passes
    _, choices = rewrite_quantized(module(_layer(X)), target, chosen.why_slower)
    rows = ProfileDatabase(tmp_path / "profiles.sqlite").profiles()
    assert len(choices) == (1 if rows else 0)
    assert all(0 < row.microseconds < math.inf and row.failure == "" for row in rows)
    assert len(rows) in (0, 2)  # none where the processor multiplies no integers


def test_other_machines_are_not_measured() -> None:
    with pytest.raises(TargetError, match="measuring"):
        phases("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", measure=True)
