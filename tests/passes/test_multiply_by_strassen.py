from __future__ import annotations

import logging

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.relay_modules import const, module, operator_names, var
from tvm_fusionx.passes import MultiplyByStrassen
from tvm_fusionx.report.bench.plain_tvm import run_once

TARGET = "llvm -mcpu=native"
ROWS, DEPTH, COLUMNS = 64, 384, 384


def _two_layers() -> tvm.IRModule:
    hidden = relay.nn.relu(relay.nn.dense(var("x", ROWS, DEPTH), const(COLUMNS, DEPTH)))
    return module(relay.nn.dense(hidden, const(8, COLUMNS, seed=3)))


def test_large_products_become_seven(caplog: pytest.LogCaptureFixture) -> None:
    mod = _two_layers()
    with caplog.at_level(logging.INFO):
        found = MultiplyByStrassen()(mod)
    assert operator_names(found["main"]).count("nn.dense") == 8
    assert "seven products of quarters" in caplog.text
    assert "is too small to gain" in caplog.text
    # No build does it by itself.
    assert operator_names(mod["main"]).count("nn.dense") == 2


def test_a_module_without_large_products_is_left_alone() -> None:
    mod = module(relay.nn.dense(var("x", 8, 16), const(8, 16)))
    tvm.ir.assert_structural_equal(MultiplyByStrassen()(mod), mod)


def test_each_product_has_a_kernel_for_products() -> None:
    target = fx.schedules.resolve_target("llvm -mtriple=aarch64-linux-gnu -num-cores=1")
    mod = MultiplyByStrassen()(_two_layers())
    with fx.lowering(target) as log:
        relay.build(fx.pipeline(target)(mod), target)
    products = [entry.template for entry in log.entries if "dense" in entry.name]
    assert len(products) > 2
    assert set(products) == {"dot"}


def test_its_error_is_of_rounding() -> None:
    mod = _two_layers()
    x = np.random.default_rng(5).standard_normal((ROWS, DEPTH)).astype("float32")
    weights = [np.asarray(each, "float64") for each in _weights(mod)]
    exact = np.maximum(x.astype("float64") @ weights[0].T, 0) @ weights[1].T
    largest = np.abs(exact).max()
    plain, seven = (
        np.abs(run_once(fx.build(each, TARGET), {"x": x})[0] - exact).max() / largest
        for each in (mod, MultiplyByStrassen()(mod))
    )
    # Less exact than the plain product, and by no more than the bound tells.
    assert seven < 1e-6
    assert seven < 10 * plain


def _weights(mod: tvm.IRModule) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    relay.analysis.post_order_visit(
        mod["main"],
        lambda each: found.append(each.data.numpy()) if isinstance(each, relay.Constant) else None,
    )
    return found
