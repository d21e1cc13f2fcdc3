from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.opencl_device import require_opencl
from tests.passes.assert_pass import assert_pass, assert_unchanged, block
from tests.relay_modules import assert_close, const, inputs_of, module, run_plain, var
from tvm_fusionx.errors import TargetError
from tvm_fusionx.passes import FuseByMapping, PackFloats
from tvm_fusionx.report.bench.plain_tvm import run_once

# Two roundings of 2**-11 one after the other, and some of each product's operands.
TWO_ROUNDINGS = 2.0**-9
TWO_ROUNDINGS_OF_BFLOAT16 = 2.0**-6
LARGEST = {"float16": 65504.0, "bfloat16": (2 - 2.0**-7) * 2.0**127}

x = var("x", 4, 8)


def _blocks(dtype: str = "float32") -> tvm.IRModule:
    p, q = var("p", 4, 8), var("p", 4, 8, dtype=dtype)
    first, second = relay.nn.relu(p), relay.abs(q)
    if dtype != "float32":
        second = relay.abs(relay.cast(q, "float32"))
        first = relay.maximum(relay.const(-LARGEST[dtype]), first)
        first = relay.minimum(relay.const(LARGEST[dtype]), first)
        first = relay.cast(first, dtype)
    return module(block("b", [q], second)(block("a", [p], first)(x)))


@pytest.mark.parametrize(
    ("target", "dtype", "tolerance"),
    [
        ("opencl", "float16", TWO_ROUNDINGS),
        ("llvm", "float16", TWO_ROUNDINGS),
        ("llvm", "bfloat16", TWO_ROUNDINGS_OF_BFLOAT16),
    ],
)
def test_blocks_pass_16_bits_to_each_other(target: str, dtype: str, tolerance: float) -> None:
    assert_pass(PackFloats(target, dtype), _blocks(), _blocks(dtype), tolerance=tolerance)


def test_half_precision_is_meant_where_none_is_named() -> None:
    found = PackFloats("llvm")(_blocks())
    tvm.ir.assert_structural_equal(found, PackFloats("llvm", "float16")(_blocks()))


def test_a_module_without_blocks_has_nothing_between_them() -> None:
    mod = module(relay.nn.relu(relay.abs(x)))
    assert_unchanged(PackFloats("opencl"), mod, because="there are no blocks")


@pytest.mark.parametrize(
    ("target", "dtype", "known"),
    [
        ("opencl", "bfloat16", "of float16, which"),
        ("llvm", "float8", "of float16, bfloat16, which"),
        ("llvm", "float32", "of float16, bfloat16, which"),
    ],
)
def test_a_type_that_kernels_do_not_convert_is_refused(target: str, dtype: str, known: str) -> None:
    with pytest.raises(TargetError, match=f"precision: expected {known}.*found '{dtype}'"):
        PackFloats(target, dtype)(_blocks())


def test_a_build_refuses_it_too() -> None:
    with pytest.raises(TargetError, match="precision: expected of float16, bfloat16"):
        fx.build(_blocks(), "llvm", precision="int8")


BEYOND = np.float32([[1e38, -3.4028235e38, 65504, 70000], [np.inf, -np.inf, np.nan, 1.5]])


@pytest.mark.parametrize("dtype", sorted(LARGEST))
def test_kernels_store_what_is_too_large_as_the_largest_number(dtype: str) -> None:
    y = var("y", 2, 4)
    mod = module(relay.negative(relay.negative(y)), params=[y])
    # A control without rules and fusion: two kernels, and something between them.
    library = fx.build(mod, "llvm -mcpu=native", precision=dtype, fuse=False, rules=[])
    assert dtype in library.get_graph_json()
    (found,) = run_once(library, {"y": BEYOND})
    expected = np.clip(BEYOND, -LARGEST[dtype], LARGEST[dtype])
    np.testing.assert_allclose(found, expected, rtol=2.0**-8)


NET_TOLERANCES = {"float16": 1e-2, "bfloat16": 8e-2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "dtype"), [("opencl", "float16"), ("llvm", "float16"), ("llvm", "bfloat16")]
)
def test_a_net_in_16_bits_is_near_the_net_in_float32(target: str, dtype: str) -> None:
    if target == "opencl":
        require_opencl()
    image = var("image", 1, 8, 12, 12)
    body = relay.nn.relu(relay.nn.conv2d(image, const(16, 8, 3, 3), padding=(1, 1)))
    scores = relay.nn.dense(relay.nn.batch_flatten(body), const(10, 2304, seed=1))
    # As moderate as a trained net's.
    mod = module(relay.nn.softmax(scores * relay.const(1e-2)))
    inputs = inputs_of(mod)
    library = fx.build(mod, target, precision=dtype)
    constants = [value.dtype for value in library.get_params().values()]
    # A CPU multiplies the window's weights with each of 144 pixels: they stay as they are.
    assert constants.count(dtype) == (2 if target == "opencl" else 1)
    found = run_once(library, inputs, tvm.device(target))
    assert_close(found, run_plain(mod, inputs), NET_TOLERANCES[dtype])


def test_a_pass_of_the_users_own_sequence() -> None:
    steps = [FuseByMapping("opencl"), PackFloats("opencl")]
    found = tvm.transform.Sequential(steps)(
        module(relay.nn.dense(relay.nn.softmax(x), const(128, 8)))
    )
    assert 'dtype="float16"' in str(found)
