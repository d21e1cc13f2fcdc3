"""Rows of a product laid side by side: same numbers, where tiles divide the rows and where not.

Kernels laid out for Arm run on this machine here; `tests/schedules/test_on_arm.py` runs them there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, tir

from tests.relay_modules import TARGET, var
from tests.schedules.blocked_blocks import unscheduled
from tests.schedules.matrix_blocks import gelu, layer_norm, packed_dense
from tvm_fusionx.counting.model_build import target_text
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.products.dot import DOT

special = pytest.importorskip("scipy.special")

NEON = target_text("cortex-a76")
COLUMNS, TERMS, WIDTH = 144, 12, 12


def _laid(func: Any) -> list[tuple[int, ...]]:
    """Return the shapes of the buffers that hold rows side by side."""
    found: list[tuple[int, ...]] = []

    def visit(block: Any) -> None:
        for each in block.alloc_buffers:
            if each.name.endswith("_reindex"):
                found.append(tuple(map(int, each.shape)))

    tir.stmt_functor.ir_transform(func.body, visit, None, ["tir.Block"])
    return found


def _scheduled(body: relay.Expr) -> Any:
    made = schedule(unscheduled(body, NEON), resolve_target(NEON), template=DOT.name)
    assert (made.template, made.fallback_reason) == (DOT.name, None)
    return made.func


def _operands(rows: int, terms: int = TERMS) -> dict[str, np.ndarray]:
    random = np.random.default_rng(rows)
    shapes = {"x": (rows, terms), "w": (COLUMNS // WIDTH, terms, WIDTH), "bias": (COLUMNS,)}
    shapes |= {"gamma": (COLUMNS,), "beta": (COLUMNS,)}
    return {name: random.normal(size=size).astype("float32") for name, size in shapes.items()}


def _product(operands: dict[str, np.ndarray]) -> np.ndarray:
    weights = operands["w"].transpose(0, 2, 1).reshape(COLUMNS, -1).astype("float64")
    return operands["x"] @ weights.T + operands["bias"]


def _gelu(x: np.ndarray, _: dict[str, np.ndarray]) -> np.ndarray:
    return x * 0.5 * (1 + special.erf(x / np.sqrt(2)))


def _norm(x: np.ndarray, operands: dict[str, np.ndarray]) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * operands["gamma"] + operands["beta"]


def _found(func: Any, inputs: list[str], operands: dict[str, np.ndarray]) -> np.ndarray:
    kernel = compile_kernel(func, resolve_target(TARGET), "kernel")
    result = tvm.nd.empty((operands["x"].shape[0], COLUMNS))
    kernel(*(tvm.nd.array(operands[name]) for name in inputs), result)
    return np.asarray(result.numpy())


# By squares; squares of rows that are computed twice are none, nor are those of too few terms.
@pytest.mark.parametrize(("rows", "terms"), [(16, TERMS), (23, TERMS), (16, 10)])
def test_a_product_with_a_gelu(rows: int, terms: int) -> None:
    func = _scheduled(gelu(packed_dense(rows, COLUMNS, terms, WIDTH)))
    assert _laid(func) == [(-(-rows // 8), terms, 8)]
    operands = _operands(rows, terms)
    expected = _gelu(_product(operands), operands)
    found = _found(func, ["x", "w", "bias"], operands)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_product_whose_rows_are_normed() -> None:
    func = _scheduled(layer_norm(packed_dense(16, COLUMNS, TERMS, WIDTH), COLUMNS))
    assert _laid(func) == [(2, TERMS, 8)]
    operands = _operands(16)
    expected = _norm(_product(operands), operands)
    found = _found(func, ["x", "w", "bias", "gamma", "beta"], operands)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_what_is_computed_before_a_product_is_laid_too() -> None:
    data = relay.reshape(relay.nn.relu(var("x", 2, 8, TERMS)), (16, TERMS))
    weights = var("w", COLUMNS // WIDTH, TERMS, WIDTH)
    body = relay.nn.contrib_dense_pack(data, weights, weight_layout=f"NC{WIDTH}n")
    func = _scheduled(body + var("bias", COLUMNS))
    assert _laid(func) == [(2, TERMS, 8)]
    operands = _operands(16)
    expected = _product(operands | {"x": np.maximum(operands["x"], 0)})
    given = operands | {"x": operands["x"].reshape(2, 8, TERMS)}
    kernel = compile_kernel(func, resolve_target(TARGET), "kernel")
    result = tvm.nd.empty((16, COLUMNS))
    kernel(*(tvm.nd.array(given[name]) for name in ("x", "w", "bias")), result)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(3, COLUMNS), (12, COLUMNS), (16, 48)])
def test_too_few_or_odd_rows_or_too_few_columns_stay_where_they_are(
    rows: int, columns: int
) -> None:
    assert _laid(_scheduled(packed_dense(rows, columns, TERMS, WIDTH))) == []


def test_other_processors_lay_nothing() -> None:
    target = resolve_target("llvm -mcpu=znver3 -num-cores=1")
    body = packed_dense(16, COLUMNS, TERMS, 16)
    assert _laid(schedule(unscheduled(body, target), target, template=DOT.name).func) == []
