"""The pass makes halves of the weights of depthwise windows, where a core multiplies halves."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.passes.assert_pass import assert_unchanged
from tests.relay_modules import module, var
from tvm_fusionx.passes import MultiplyHalves

ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu={} -num-cores=1"
X2 = ARM.format("cortex-x2")
WEIGHTS = "(8, 1, 3, 3, 1, 4), float16"


def _net(dtype: str = "float16") -> tvm.IRModule:
    """Return a window over each of 32 channels, behind a pool, stored in a type."""
    numbers = np.random.default_rng(0).standard_normal((32, 1, 3, 3)).astype(dtype)
    x = relay.nn.max_pool2d(var("x", 1, 32, 14, 14, dtype=dtype), (2, 2))
    y = relay.nn.conv2d(x, relay.const(numbers), padding=(1, 1), groups=32)
    return module(relay.nn.relu(y))


def _has_halves(mod: tvm.IRModule) -> bool:
    return f"Tensor[{WEIGHTS}]" in str(relay.transform.InferType()(mod))


def test_weights_become_halves_once() -> None:
    before = fx.pipeline(ARM.format("cortex-a76"))(_net())
    pass_ = MultiplyHalves(X2)
    found = pass_(before)
    assert not _has_halves(before)
    assert _has_halves(found)
    assert_unchanged(pass_, found, because="its weights are halves")


def test_a_build_has_it() -> None:
    assert _has_halves(fx.pipeline(X2)(_net()))


def test_sums_of_halves_have_their_own() -> None:
    names = [str(each.info.name) for each in fx.pipeline(X2, precision="float16-sums").passes]
    assert MultiplyHalves(X2).info.name not in names


@pytest.mark.parametrize("target", ["opencl", "llvm -mcpu=znver4", ARM.format("cortex-a78")])
def test_other_targets_stay(target: str) -> None:
    before = fx.pipeline(ARM.format("cortex-a76"))(_net())
    assert_unchanged(MultiplyHalves(target), before, because="nothing multiplies halves")
