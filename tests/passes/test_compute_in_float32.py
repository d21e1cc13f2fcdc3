from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.passes.assert_pass import assert_unchanged, block
from tests.relay_modules import (
    assert_close,
    blocks_of,
    const,
    inputs_of,
    module,
    operator_names,
    run_plain,
    var,
)
from tvm_fusionx.ecg.relay_constants import cast_constant
from tvm_fusionx.lowering import lowering
from tvm_fusionx.passes import ComputeInFloat32, FuseByMapping, RewriteGraph
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target

TARGET = "llvm -mcpu=native"
HALF = "float16"
# What is rounded right may be either of two neighbours.
STEP = 2.0**-10
# Weights, image and three results are rounded, each by half a step at most.
NET_TOLERANCE = 3 * STEP


def _mod(dtype: str) -> tvm.IRModule:
    x = var("x", 4, 2048, dtype=dtype)
    w = relay.const(const(8, 2048).data.numpy().astype(dtype), dtype)
    product = relay.nn.dense(x, w, out_dtype=dtype)
    return module(relay.nn.softmax(product / relay.const(100.0, dtype)), relay.mean(x * x, axis=1))


def _inputs() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).uniform(200, 260, (4, 2048)).astype(HALF)}


def _wide_numbers(given: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return what the model computes in float32, of halves, and cast to halves at the end."""
    data, weights = given["x"].astype("float32"), const(8, 2048).data.numpy().astype(HALF)
    scores = data @ weights.astype("float32").T / 100
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    return [each.astype(HALF) for each in (probabilities, (data**2).mean(axis=1))]


def test_sums_of_thousands_of_halves_are_right() -> None:
    mod, given = _mod(HALF), _inputs()
    found = run_once(fx.build(mod, TARGET), given)
    # exp(x) moves as far as x does, and the scores reach 50.
    assert_close(found[:1], _wide_numbers(given)[:1], 2 * STEP)
    assert_close(found[1:], _wide_numbers(given)[1:], STEP)


def test_without_the_pass_halves_are_summed_up_in_halves() -> None:
    mod, given = _mod(HALF), _inputs()
    target = resolve_target(TARGET)
    steps = [RewriteGraph(), FuseByMapping(target)]
    fused = tvm.transform.Sequential(steps)(mod)
    assert not any("float32" in str(each) for each in blocks_of(fused))
    with lowering(target):
        library = relay.build(fused, target)
    assert not np.isfinite(run_once(library, given)[1]).all()
    assert np.isfinite(
        _run(tvm.transform.Sequential([*steps, ComputeInFloat32(target)]), mod)[1]
    ).all()


def _run(passes: tvm.transform.Sequential, mod: tvm.IRModule) -> list[np.ndarray]:
    target = resolve_target(TARGET)
    with lowering(target):
        return run_once(relay.build(passes(mod), target), _inputs())


@pytest.mark.parametrize("dtype", [HALF, "bfloat16"])
def test_the_module_that_was_given_stays_and_a_second_run_changes_nothing(dtype: str) -> None:
    p = var("p", 4, 8, dtype=dtype)
    before = module(block("b", [p], relay.exp(p))(var("x", 4, 8, dtype=dtype)))
    text = before.astext()
    found = ComputeInFloat32(TARGET)(before)
    assert before.astext() == text
    assert operator_names(found["main"]) == ["cast", "cast", "exp"]
    twice = ComputeInFloat32(TARGET)(found)
    tvm.ir.assert_structural_equal(twice, found)


def test_a_model_in_float32_stays_as_it_is() -> None:
    p = var("p", 4, 8)
    mod = module(block("b", [p], relay.exp(p))(var("x", 4, 8)))
    assert_unchanged(ComputeInFloat32(TARGET), mod, because="nothing in it is narrow")


def test_a_model_with_constants_of_bfloat16_is_planned_and_right() -> None:
    x = relay.cast(var("x", 4, 64), "bfloat16")
    weights = [cast_constant(const(64, 64, seed=seed), "bfloat16") for seed in (0, 1)]
    body = x
    for each in weights:
        body = relay.nn.relu(relay.nn.dense(body, each, out_dtype="bfloat16"))
    mod = module(relay.cast(body, "float32"))
    given = inputs_of(mod)
    wide = given["x"]
    for each in weights:
        wide = np.maximum(wide @ cast_constant(each, "float32").data.numpy().T, 0)
    library = fx.build(mod, TARGET)
    assert_close(run_once(library, given), [wide], 2.0**-7)
    products = [each for each in library.get_params().values() if len(each.shape) > 1]
    assert {str(each.dtype) for each in products} == {"bfloat16"}


@pytest.mark.parametrize(("rows", "dtype"), [(8, HALF), (64, "float32")])
def test_on_a_cpu_weights_that_are_used_often_are_widened_once(rows: int, dtype: str) -> None:
    p, q = var("p", rows, 32, dtype=HALF), var("q", 64, 32, dtype=HALF)
    product = block("b", [p, q], relay.nn.dense(p, q, out_dtype=HALF))
    mod = module(product(var("x", rows, 32, dtype=HALF), const(64, 32, dtype=HALF)))
    (found,) = blocks_of(ComputeInFloat32(TARGET)(mod))
    assert str(found.params[1].checked_type.dtype) == dtype
    (gpu,) = blocks_of(ComputeInFloat32("opencl")(mod))
    assert str(gpu.params[1].checked_type.dtype) == HALF


def test_a_net_of_halves_is_right() -> None:
    x = var("x", 1, 8, 12, 12)
    image = relay.cast(x, HALF)

    def narrow(*shape: int, seed: int = 0) -> relay.Expr:
        return relay.cast(const(*shape, seed=seed), HALF)

    body = relay.nn.relu(
        relay.nn.conv2d(image, narrow(16, 8, 3, 3), padding=(1, 1), out_dtype=HALF)
    )
    pooled = relay.nn.avg_pool2d(body, (3, 3), (2, 2))
    scores = relay.nn.dense(relay.nn.batch_flatten(pooled), narrow(10, 400, seed=1), out_dtype=HALF)
    mod = module(relay.cast(scores, "float32"))
    given = inputs_of(mod)
    library = fx.build(mod, TARGET)
    found = run_once(library, given)
    wide = module(
        relay.nn.dense(
            relay.nn.batch_flatten(
                relay.nn.avg_pool2d(
                    relay.nn.relu(relay.nn.conv2d(x, const(16, 8, 3, 3), padding=(1, 1))),
                    (3, 3),
                    (2, 2),
                )
            ),
            const(10, 400, seed=1),
        )
    )
    assert_close(found, run_plain(wide, given), NET_TOLERANCE)
