"""Tensors between kernels that are images: what is chosen, and what the kernels then give."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, tir

import tvm_fusionx as fx
from tests.opencl_device import require_opencl
from tests.relay_modules import const, inputs_of, module, var
from tests.sampled import few_fast
from tvm_fusionx.errors import TargetError
from tvm_fusionx.lowering import lowering
from tvm_fusionx.processors.gpu import describe_gpu
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import FAMILIES, GPU_TEMPLATES, Family
from tvm_fusionx.schedules.gpu.images import images_for, parameter_names
from tvm_fusionx.schedules.gpu.pixels import ACTIVATION_SCOPE
from tvm_fusionx.schedules.lowering_log import LoweringLog

OPENCL = tvm.target.Target("opencl", host="llvm")
ADRENO = tvm.target.Target("opencl -device=adreno", host="llvm")

# Enough results for tiles of whole pixels by default.
SIZE = (60, 100)

LAYERS = 4


def test_images_of_a_target_without_are_refused() -> None:
    with pytest.raises(TargetError, match="activation_images"):
        images_for(tvm.target.Target("llvm"), True)
    assert images_for(tvm.target.Target("llvm"), False).gpu is None


def test_parameters_whose_name_is_taken_are_not_known() -> None:
    x, y = (tvm.te.placeholder((4,), name=name) for name in "xy")
    middle = tvm.te.compute((4,), lambda i: x[i] + y[i], name="y")
    out = tvm.te.compute((4,), lambda i: middle[i] * 2, name="out")
    func = tvm.te.create_prim_func([x, y, out])
    names = parameter_names(func)
    taken = [str(func.buffer_map[param].data.name) for param in func.params]
    assert names[0] == "x"
    assert names[2] == "out"
    blocks: list[str] = []
    tir.stmt_functor.post_order_visit(
        func.body,
        lambda node: (
            blocks.extend(str(each.data.name) for each in node.alloc_buffers)
            if isinstance(node, tir.Block)
            else None
        ),
    )
    assert names[1] == ("" if taken[1] in blocks else taken[1])


def _convolution(x: relay.Expr, channels: int, kernel: int, seed: int = 0) -> relay.Expr:
    weight = const(channels, _channels(x), kernel, kernel, seed=seed)
    padding = (kernel // 2, kernel // 2)
    return relay.nn.conv2d(x, weight * relay.const(0.1), padding=padding)


def _channels(x: relay.Expr) -> int:
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(x))["main"]
    return int(typed.ret_type.shape[1])


def _net(kernel: int = 1) -> relay.Expr:
    """Return a net whose tensors are read once, twice, whole, in parts, and given back."""
    x = relay.nn.relu(_convolution(var("x", 1, 8, *SIZE), 8, kernel))
    y = _convolution(relay.nn.relu(_convolution(x, 8, kernel, seed=1)), 8, 1, seed=2) + x
    small = relay.nn.max_pool2d(y, (2, 2), strides=(2, 2))
    joined = relay.concatenate([small, relay.tanh(small)], axis=1)
    return relay.nn.relu(_convolution(joined, 8, 1, seed=3))


def _built(body: relay.Expr, target: Any, images: bool) -> tuple[Any, LoweringLog, list[str]]:
    blocks = fx.pipeline(target)(module(body))
    with lowering(target, activation_images=images) as log:
        library = relay.build(blocks, target)
    attributes = json.loads(library.get_graph_json())["attrs"]
    scopes = attributes.get("storage_scope", ["", []])[1]
    return library, log, scopes


@pytest.mark.parametrize(
    ("target", "kernel"),
    [
        (OPENCL, 1),
        pytest.param(OPENCL, 3, marks=pytest.mark.slow),
        pytest.param(ADRENO, 3, marks=pytest.mark.slow),
    ],
)
def test_a_net_of_images_gives_the_same_numbers(target: Any, kernel: int) -> None:
    require_opencl()
    body = _net(kernel)
    inputs = inputs_of(module(body))
    plain, log, scopes = _built(body, target, images=False)
    assert log.buffers == {}
    assert ACTIVATION_SCOPE not in scopes
    library, log, scopes = _built(body, target, images=True)
    assert scopes.count(ACTIVATION_SCOPE) == 3
    assert "it is an output of the model" in log.buffers.values()
    assert "a reader: loads are no whole pixels" in log.buffers.values()
    source = library.get_lib().imported_modules[0].get_source()
    assert source.count("write_imagef(") >= 3
    wanted = run_once(plain, inputs, tvm.opencl(0))
    found = run_once(library, inputs, tvm.opencl(0))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_equal_blocks_of_which_one_writes_an_image_are_two_kernels() -> None:
    require_opencl()
    x = relay.nn.relu(_convolution(var("x", 1, 8, *SIZE), 8, 1))
    x = relay.nn.relu(_convolution(x, 8, 1))
    x = relay.nn.relu(_convolution(x, 8, 1))
    body = relay.Tuple([x, _convolution(x, 8, 1, seed=1)])
    inputs = inputs_of(module(body))
    plain, _, _ = _built(body, OPENCL, images=False)
    library, log, scopes = _built(body, OPENCL, images=True)
    assert ACTIVATION_SCOPE in scopes
    assert log.buffers
    wanted = run_once(plain, inputs, tvm.opencl(0))
    found = run_once(library, inputs, tvm.opencl(0))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_images_that_are_too_large_stay_buffers() -> None:
    target = tvm.target.Target("opencl -texture_spatial_limit=64", host="llvm")
    _, log, scopes = _built(_net(), target, images=True)
    assert ACTIVATION_SCOPE not in scopes
    assert any("more than the device's 64" in reason for reason in log.buffers.values())


@pytest.mark.slow
def test_halves_stay_buffers() -> None:
    require_opencl()
    library = fx.build(module(_net()), ADRENO, activation_images=True, precision="float16")
    attributes = json.loads(library.get_graph_json())["attrs"]
    assert ACTIVATION_SCOPE not in attributes.get("storage_scope", ["", []])[1]


def _random_net(seed: int) -> relay.Expr:
    """Return a net of layers that read any of the tensors before them."""
    draw = np.random.default_rng(seed)
    made = [relay.nn.relu(_convolution(var("x", 1, 4, *draw.integers(6, 14, 2).tolist()), 8, 1))]
    for step in range(LAYERS):
        x = made[draw.integers(len(made))]
        kind = draw.integers(6)
        channels = _channels(x)
        if kind == 0:
            made.append(relay.nn.relu(_convolution(x, 4 * int(draw.integers(1, 4)), 3, seed=step)))
        elif kind == 1:
            made.append(_convolution(x, 4 * int(draw.integers(1, 4)), 1, seed=step))
        elif kind == 2:
            weight = const(channels, 1, 3, 3, seed=step)
            strides = (int(draw.integers(1, 3)),) * 2
            made.append(
                relay.nn.conv2d(x, weight, groups=channels, padding=(1, 1), strides=strides)
            )
        elif kind == 3:
            made.append(relay.nn.max_pool2d(x, (3, 3), padding=(1, 1)))
        elif kind == 4:
            made.append(relay.concatenate([x, relay.sigmoid(x)], axis=1))
        else:
            made.append(x + relay.nn.relu(_convolution(x, channels, 3, seed=step)))
    return relay.Tuple([_convolution(made[-1], 4, 1), relay.mean(made[-2], axis=(2, 3))])


@pytest.mark.parametrize("seed", few_fast(range(6), 1))
def test_random_nets_give_the_same_numbers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    require_opencl()
    # The widest tiles, however small the pictures.
    eager = Family(lambda target: replace(describe_gpu(target), busy_items=1), GPU_TEMPLATES)
    monkeypatch.setitem(FAMILIES, "opencl", eager)
    body = _random_net(seed)
    inputs = inputs_of(module(body))
    plain, _, _ = _built(body, OPENCL, images=False)
    library, _, scopes = _built(body, OPENCL, images=True)
    assert ACTIVATION_SCOPE in scopes
    wanted = run_once(plain, inputs, tvm.opencl(0))
    found = run_once(library, inputs, tvm.opencl(0))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
