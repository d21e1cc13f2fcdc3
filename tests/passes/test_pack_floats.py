from __future__ import annotations

import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.opencl_device import require_opencl
from tests.passes.assert_pass import assert_pass, assert_unchanged, block
from tests.relay_modules import assert_close, const, inputs_of, module, run_plain, var
from tvm_fusionx.errors import TargetError
from tvm_fusionx.passes import FuseByMapping, PackFloat16
from tvm_fusionx.report.bench.plain_tvm import run_once

# Two roundings of 2**-11 one after the other, and some of each product's operands.
TWO_ROUNDINGS = 2.0**-9

x = var("x", 4, 8)


def _blocks(narrow: bool) -> tvm.IRModule:
    p, q = var("p", 4, 8), var("p", 4, 8, dtype="float16" if narrow else "float32")
    first, second = relay.nn.relu(p), relay.abs(relay.cast(q, "float32") if narrow else q)
    if narrow:
        first = relay.cast(first, "float16")
    return module(block("b", [q], second)(block("a", [p], first)(x)))


def test_blocks_pass_halves_to_each_other() -> None:
    assert_pass(PackFloat16("opencl"), _blocks(False), _blocks(True), tolerance=TWO_ROUNDINGS)


def test_a_module_without_blocks_has_nothing_between_them() -> None:
    mod = module(relay.nn.relu(relay.abs(x)))
    assert_unchanged(PackFloat16("opencl"), mod, because="there are no blocks")


def test_only_opencl_converts_while_it_loads_and_stores() -> None:
    with pytest.raises(TargetError, match=r"float16: expected an OpenCL target; found llvm"):
        PackFloat16("llvm")(_blocks(False))
    with pytest.raises(TargetError, match="float16"):
        fx.build(_blocks(False), "llvm", float16=True)


@pytest.mark.slow
def test_a_net_in_float16_is_near_the_net_in_float32() -> None:
    require_opencl()
    image = var("image", 1, 8, 12, 12)
    body = relay.nn.relu(relay.nn.conv2d(image, const(16, 8, 3, 3), padding=(1, 1)))
    scores = relay.nn.dense(relay.nn.batch_flatten(body), const(10, 2304, seed=1))
    # As moderate as a trained net's.
    mod = module(relay.nn.softmax(scores * relay.const(1e-2)))
    inputs = inputs_of(mod)
    library = fx.build(mod, "opencl", float16=True)
    constants = [value.dtype for value in library.get_params().values()]
    assert constants.count("float16") == 2
    found = run_once(library, inputs, tvm.opencl(0))
    assert_close(found, run_plain(mod, inputs), 1e-2)


def test_a_pass_of_the_users_own_sequence() -> None:
    steps = [FuseByMapping("opencl"), PackFloat16("opencl")]
    found = tvm.transform.Sequential(steps)(
        module(relay.nn.dense(relay.nn.softmax(x), const(128, 8)))
    )
    assert 'dtype="float16"' in str(found)
