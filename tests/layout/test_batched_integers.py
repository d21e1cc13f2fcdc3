from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.processors.test_integers import PROCESSORS
from tests.relay_modules import graph, var
from tests.sampled import few_fast
from tvm_fusionx.expressions.integer_products import BATCHED
from tvm_fusionx.layout.batched_integers import pack_batched_integers, why_not_batched
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules import describe_cpu, resolve_target

TARGET = "llvm -mcpu=native"
# Adds two products of bytes in 16 bits.
BYTE_PAIRS = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"


def _cpu(target: str = TARGET) -> Cpu:
    return describe_cpu(resolve_target(target))


def _product(
    dtypes: tuple[str, str], left: tuple[int, ...], right: tuple[int, ...], **how: Any
) -> Any:
    x, y = var("x", *left, dtype=dtypes[0]), var("y", *right, dtype=dtypes[1])
    return relay.nn.batch_matmul(x, y, out_dtype="int32", **how)


def _operators(expr: Any, cpu: Cpu) -> list[str]:
    found = graph(expr)
    pack_batched_integers(found, cpu)
    return [node.op for node in found.calls()]


@pytest.mark.parametrize(
    ("left", "right", "how", "template"),
    [
        ((3, 7, 16), (3, 40, 16), {}, "dot"),
        ((2, 70, 62), (1, 90, 62), {}, "dot"),
        ((3, 40, 62), (3, 62, 90), {"transpose_b": False}, "dot"),
        ((2, 1, 7), (2, 7, 3), {"transpose_b": False}, "dot"),
    ],
)
def test_products_are_those_of_numpy(
    left: tuple[int, ...], right: tuple[int, ...], how: dict[str, bool], template: str
) -> None:
    cpu = _cpu()
    if cpu.dot is None:
        pytest.skip("this processor multiplies no integers")
    expr = _product((cpu.dot.data, cpu.dot.weights), left, right, **how)
    resolved = resolve_target(TARGET)
    module = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(expr), expr))
    with fx.lowering(resolved) as log:
        library = relay.build(fx.pipeline(resolved)(module), resolved)
    assert template in [entry.template for entry in log.entries]
    generator = np.random.default_rng(0)
    x, y = (
        generator.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shape).astype(kind)
        for kind, shape in ((cpu.dot.data, left), (cpu.dot.weights, right))
    )
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.set_input(x=x, y=y)
    executor.run()
    wide = y.astype("int64") if how else y.astype("int64").transpose(0, 2, 1)
    assert np.array_equal(executor.get_output(0).numpy(), x.astype("int64") @ wide)


@pytest.mark.parametrize("target", few_fast(PROCESSORS, 1))
def test_kernels_use_the_instruction(target: str) -> None:
    dot = _cpu(target).dot
    assert dot is not None
    expr = _product((dot.data, dot.weights), (3, 40, 64), (3, 96, 64))
    resolved = resolve_target(target)
    module = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(expr), expr))
    with fx.lowering(resolved):
        library = relay.build(fx.pipeline(resolved)(module), resolved)
    assembly = library.lib.get_source("asm")
    assert len(re.findall(rf"\b{PROCESSORS[target][0]}\s", assembly)) > 1


def test_what_no_instruction_divides_is_filled_up() -> None:
    vnni = _cpu("llvm -mcpu=icelake-server")
    whole = _operators(_product(("uint8", "int8"), (2, 6, 16), (2, 16, 16)), vnni)
    assert whole == ["reshape", "transpose", BATCHED]
    filled = _operators(_product(("uint8", "int8"), (2, 6, 10), (2, 9, 10)), vnni)
    assert filled == ["nn.pad", "nn.pad", "reshape", "transpose", BATCHED, "strided_slice"]


@pytest.mark.parametrize(
    ("expr", "target", "because"),
    [
        (relay.exp(var("x", 2, 3, 4)), TARGET, "no batch of products of integers"),
        (
            relay.nn.batch_matmul(var("x", 2, 3, 4), var("y", 2, 5, 4)),
            "llvm -mcpu=icelake-server",
            "no batch of products of integers",
        ),
        (_product(("uint8", "int8"), (2, 3, 4), (2, 5, 4)), "llvm", "no instruction for dot"),
        (_product(("int8", "int8"), (2, 3, 4), (2, 5, 4)), BYTE_PAIRS, "both sides may be -128"),
        (
            _product(("int8", "int8"), (2, 3, 4), (2, 5, 4)),
            "llvm -mcpu=icelake-server",
            "no instruction multiplies int8 by int8",
        ),
        (
            _product(("uint8", "int8"), (2, 4, 3), (2, 5, 4), transpose_a=True),
            "llvm -mcpu=icelake-server",
            "left side is transposed",
        ),
        (
            _product(("uint8", "int8"), (1, 3, 4), (2, 5, 4)),
            "llvm -mcpu=icelake-server",
            "shared by 2 right ones",
        ),
    ],
)
def test_refusal_has_a_reason(expr: Any, target: str, because: str) -> None:
    (node,) = graph(expr).calls()
    found = why_not_batched(node, _cpu(target).dot)
    assert found is not None
    assert because in found
