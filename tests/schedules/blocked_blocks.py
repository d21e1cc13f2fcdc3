"""Blocks around NCHWc convolutions and pooling, and what our templates make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tests.relay_modules import (
    REASSOCIATING,
    TARGET,
    assert_close,
    inputs_of,
    module,
    run_plain,
    var,
)
from tests.verified_kernels import assert_results, kernels
from tvm_fusionx._tvm.cures import (
    PASSES_THAT_UNDO_BLOCKS,
    concatenation_as_expression,
    direct_expressions,
)
from tvm_fusionx.lowering import compile_kernel, lowering
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.tir.block import BlockInfo, describe_block
from tvm_fusionx.tir.indices import simplify_indices

Post = Callable[[Any], Any]

AVX2 = Cpu(lanes=8, registers=16, cores=2)
AVX512 = Cpu(lanes=16, registers=32, cores=2)
NEON = Cpu(lanes=4, registers=32, cores=2, multiplies_by_lane=True)

# Asks a converter for the PrimFunc of every block of a module, and compiles nothing.
_blocks_of_module = tvm.get_global_func("relay.backend.MetaScheduleExtractTask")
# What the numbers of a block are compared with, and how: they belong to the question that a row of
# the table of verified kernels answers.
REFERENCE = (inputs_of, run_plain, assert_close)

_default_converter = tvm.get_global_func("relay.backend.tir_converter.default")
_extern_converter = tvm.get_global_func("relay.backend.tir_converter.allow_extern")
_caught: list[Any] = []


def _catch(args: Any, constants: Any) -> None:
    """Keep the block; none is returned, so that TVM asks for no schedule."""
    func = _default_converter(args, constants)
    _caught.append(_extern_converter(args, constants) if func is None else func)


def dense(
    channels: int,
    size: tuple[int, int],
    outputs: int,
    kernel: tuple[int, int],
    *,
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    batch: int = 1,
    blocks: tuple[int, int] = (8, 8),
    pre: Post = lambda x: x,
    post: Post = lambda y: y,
) -> relay.Expr:
    """Return a dense NCHWc convolution of `pre` of its input, with bias, followed by `post`."""
    inner, outer = blocks
    data = var("x", batch, channels // inner, *size, inner)
    weights = var("w", outputs // outer, channels // groups // inner, *kernel, inner, outer)
    out = relay.nn.contrib_conv2d_nchwc(
        pre(data),
        weights,
        strides,
        padding,
        dilation,
        groups,
        outputs,
        kernel,
        f"NCHW{inner}c",
        f"OIHW{inner}i{outer}o",
        f"NCHW{outer}c",
    )
    return post(relay.add(out, var("b", 1, outputs // outer, 1, 1, outer)))


def depthwise(
    channels: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    *,
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    block: int = 8,
    post: Post = lambda y: y,
) -> relay.Expr:
    """Return a depthwise NCHWc convolution with bias, followed by `post`."""
    out = relay.nn.contrib_depthwise_conv2d_nchwc(
        var("x", 1, channels // block, *size, block),
        var("w", channels // block, 1, *kernel, 1, block),
        strides,
        padding,
        dilation,
        channels,
        channels,
        kernel,
        f"NCHW{block}c",
        f"OIHW1i{block}o",
        f"NCHW{block}c",
    )
    return post(relay.add(out, var("b", 1, channels // block, 1, 1, block)))


def hard_swish(y: Any) -> Any:
    """Return ``y * clip(y + 3, 0, 6) / 6``."""
    gate = relay.clip(relay.add(y, relay.const(3.0)), 0, 6)
    return relay.divide(relay.multiply(y, gate), relay.const(6.0))


def as_block(body: relay.Expr) -> tvm.IRModule:
    """Return a module whose ``main`` calls one block that computes `body`."""
    inner = module(body)["main"]
    params = [relay.Var(param.name_hint, param.checked_type) for param in inner.params]
    block = inner.with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    return module(relay.Call(block, params), params=params)


def unscheduled(body: relay.Expr, target: Any = TARGET) -> Any:
    """Return the PrimFunc that a template gets for a block that computes `body`."""
    tvm.register_func("relay.backend.tir_converter.catch", _catch, override=True)
    _caught.clear()
    config = {
        "relay.backend.use_meta_schedule": True,
        "relay.backend.tir_converter": "catch",
    }
    resolved = resolve_target(target)
    # Those that a build leaves out; one of them, SimplifyExpr, infers types anew for each of its
    # patterns: two thirds of the time.
    disabled = list(PASSES_THAT_UNDO_BLOCKS)
    with (
        concatenation_as_expression(),
        direct_expressions(),
        resolved,
        tvm.transform.PassContext(opt_level=3, config=config, disabled_pass=disabled),
    ):
        _blocks_of_module(as_block(body), resolved, {}, "structural")
    (func,) = _caught
    return simplify_indices(func)


def eight_lanes() -> tvm.target.Target:
    """Return this machine with vectors of 8 floats at most: chunks of 8 channels are whole ones."""
    target = resolve_target(TARGET)
    return resolve_target(f"{TARGET} -mattr=-avx512f") if describe_cpu(target).lanes > 8 else target


def describe(body: relay.Expr, cpu: Cpu = AVX2) -> BlockInfo:
    """Return what a template learns of a block that computes `body`."""
    return describe_block(unscheduled(body), cpu)


def cut_to(channels: int, y: relay.Expr) -> relay.Expr:
    """Leave the layout of eight channels a chunk, and all but the first `channels` behind."""
    return relay.strided_slice(
        relay.layout_transform(y, "NCHW8c", "NCHW"), [0], [channels], axes=[1]
    )


def assert_scheduled(
    body: relay.Expr, template: str, tolerance: float, seed: int = 0, target: Any = TARGET
) -> None:
    """Schedule a block that computes `body`: check the template used and the numbers.

    It is built, run and compared unless an equal kernel passed before.
    """
    target = resolve_target(target)
    made = schedule(unscheduled(body, target), target)
    assert (made.template, made.fallback_reason) == (template, None)
    if kernels.has(made.func, target, (module(body), seed, tolerance, *REFERENCE)):
        return
    mod = as_block(body)
    inputs = inputs_of(mod, seed)
    with lowering(target) as log:
        library = relay.build(mod, target)
    assert [(entry.template, entry.fallback_reason) for entry in log.entries] == [(template, None)]
    assert tvm.ir.structural_equal(log.entries[0].func, made.func)
    expected = run_plain(module(body), inputs)
    assert all(np.isfinite(array).all() for array in expected)
    assert_close(run_once(library, inputs), expected, tolerance)


def assert_computes(
    func: Any,
    target: tvm.target.Target,
    mod: tvm.IRModule,
    tolerance: float = REASSOCIATING,
    inputs: Callable[[tvm.IRModule], dict[str, np.ndarray]] = inputs_of,
) -> None:
    """Compile a scheduled block, run it on the inputs that `inputs` makes, compare with TVM's own.

    Unless an equal kernel passed before.
    """
    if kernels.has(func, target, (mod, tolerance, inputs, assert_results, *REFERENCE)):
        return
    values = inputs(mod)
    expected = run_plain(mod, values)
    kernel = compile_kernel(func, target, "kernel")
    assert_results(kernel, list(values.values()), expected, tolerance)


def assert_same_with_knobs(body: relay.Expr, template: str, knobs: dict[str, int]) -> None:
    """Compile a block with these values of a template's knobs: check the values and the numbers."""
    target = eight_lanes()
    made = schedule(unscheduled(body, target), target, knobs, template)
    assert made.template == template, made.fallback_reason
    assert {name: made.knobs[name] for name in knobs} == knobs
    assert_computes(made.func, target, module(body))
