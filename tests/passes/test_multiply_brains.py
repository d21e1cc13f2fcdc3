"""The pass gives products of bfloat16 weights in groups where an instruction multiplies them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.passes.assert_pass import assert_unchanged
from tests.relay_modules import module, var
from tvm_fusionx.passes import MultiplyBrains

ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu={} -num-cores=1"
N2 = ARM.format("neoverse-n2")


def _net(dtype: str = "bfloat16", channels: int = 32) -> tvm.IRModule:
    """Return two products of matrices, stored in a type."""
    numbers = np.random.default_rng(0).standard_normal((channels, channels))
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    weights = relay.Constant(tvm.nd.array(numbers.astype(kind)))
    y = relay.nn.dense(var("x", 16, channels, dtype=dtype), weights, out_dtype=dtype)
    return module(relay.nn.dense(relay.nn.relu(y), weights, out_dtype=dtype))


def _layouts(mod: tvm.IRModule) -> int:
    """Return how many products have weights in groups."""
    return str(mod).count('n4c"')


def test_products_get_groups_once() -> None:
    before = fx.pipeline(ARM.format("cortex-a76"))(_net())
    pass_ = MultiplyBrains(N2)
    found = pass_(before)
    assert _layouts(before) == 0
    assert _layouts(found) == 2
    assert_unchanged(pass_, found, because="its weights lie in groups")


def test_a_build_has_it() -> None:
    assert _layouts(fx.pipeline(N2)(_net())) == 2


def test_a_model_in_float32_that_is_stored_in_bfloat16_has_it_behind_the_first_block() -> None:
    """The model's own input stays float32."""
    mod = fx.pipeline(N2, precision="bfloat16")(_net("float32"))
    assert _layouts(mod) == 1


@pytest.mark.parametrize("target", ["opencl", "llvm -mcpu=znver4", ARM.format("cortex-a76")])
def test_other_targets_stay(target: str) -> None:
    before = fx.pipeline(ARM.format("cortex-a76"))(_net())
    assert_unchanged(MultiplyBrains(target), before, because="nothing multiplies matrices")


def test_a_model_in_float16_stays() -> None:
    assert _layouts(fx.pipeline(N2)(_net("float16"))) == 0
