from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.processors.test_integers import PROCESSORS
from tests.relay_modules import var
from tests.sampled import few_fast_rows
from tvm_fusionx.schedules import describe_cpu, resolve_target


def _integers(dtype: str, *shape: int, symmetric: bool = False) -> np.ndarray:
    limits = np.iinfo(dtype if dtype != "int16" else "uint8")
    generator = np.random.default_rng(0)
    return generator.integers(limits.min + symmetric, limits.max + 1, shape).astype(dtype)


def _dense(
    dtypes: tuple[str, str], data: tuple[int, ...], columns: int, *, symmetric: bool = False
) -> Any:
    weights = relay.const(_integers(dtypes[1], columns, data[1], symmetric=symmetric))
    return relay.nn.dense(var("x", *data, dtype=dtypes[0]), weights, out_dtype="int32")


def _conv(
    dtypes: tuple[str, str],
    data: tuple[int, ...],
    outputs: int,
    size: int,
    *,
    symmetric: bool = False,
) -> Any:
    shape = outputs, data[1], size, size
    weights = relay.const(_integers(dtypes[1], *shape, symmetric=symmetric))
    image = var("x", *data, dtype=dtypes[0])
    return relay.nn.conv2d(image, weights, padding=(size // 2,) * 2, out_dtype="int32")


def _build(expr: Any, target: str) -> tuple[Any, list[str]]:
    resolved = resolve_target(target)
    module = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(expr), expr))
    with fx.lowering(resolved) as log:
        library = relay.build(fx.pipeline(resolved)(module), resolved)
    return library, [entry.template for entry in log.entries]


def _numbers(expr: Any, library: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.set_input("x", x)
    executor.run()
    plain = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(expr), expr))
    expected = relay.create_executor("graph", plain, tvm.cpu(), "llvm").evaluate()(x)
    return executor.get_output(0).numpy(), expected.numpy()


@pytest.mark.parametrize(
    ("data", "columns"), [((8, 16), 32), ((7, 32), 40), ((1, 64), 16), ((37, 12), 20)]
)
def test_dense_sums_are_exact(data: tuple[int, int], columns: int) -> None:
    dot = describe_cpu(resolve_target("llvm -mcpu=native")).dot
    if dot is None:
        pytest.skip("this processor multiplies no integers")
    expr = _dense((dot.data, dot.weights), data, columns)
    library, templates = _build(expr, "llvm -mcpu=native")
    found, expected = _numbers(expr, library, _integers(dot.data, *data))
    assert np.array_equal(found, expected)
    assert templates == ["dot"]


@pytest.mark.parametrize(
    ("data", "outputs", "size"),
    [((1, 16, 7, 7), 32, 3), ((2, 8, 5, 9), 16, 1), ((1, 12, 6, 6), 8, 3), ((1, 4, 6, 6), 16, 3)],
)
def test_sums_of_convolutions_are_exact(data: tuple[int, ...], outputs: int, size: int) -> None:
    dot = describe_cpu(resolve_target("llvm -mcpu=native")).dot
    if dot is None:
        pytest.skip("this processor multiplies no integers")
    expr = _conv((dot.data, dot.weights), data, outputs, size)
    library, templates = _build(expr, "llvm -mcpu=native")
    found, expected = _numbers(expr, library, _integers(dot.data, *data))
    assert np.array_equal(found, expected)
    assert not {"conv2d", "byte_tiles"}.isdisjoint(templates)


@pytest.mark.parametrize(
    ("target", "kind"),
    few_fast_rows(
        product(["llvm -mcpu=icelake-server", "llvm -mcpu=alderlake"], ["dense", "convolution"]), 1
    ),
)
def test_kernels_of_words_use_theirs_beside_bytes(target: str, kind: str) -> None:
    types = "int16", "int16"
    expr = _dense(types, (16, 32), 64) if kind == "dense" else _conv(types, (1, 16, 8, 8), 32, 3)
    library, _ = _build(expr, target)
    assert len(re.findall(r"\bvpdpwssd\s", library.lib.get_source("asm"))) > 1


@pytest.mark.parametrize(
    ("data", "outputs", "size"), [((1, 16, 7, 7), 32, 3), ((1, 12, 6, 6), 8, 1)]
)
def test_sums_of_words_are_exact(data: tuple[int, ...], outputs: int, size: int) -> None:
    if describe_cpu(resolve_target("llvm -mcpu=native")).word_dot is None:
        pytest.skip("this processor multiplies no integers of 16 bits")
    expr = _conv(("int16", "int16"), data, outputs, size)
    library, _ = _build(expr, "llvm -mcpu=native")
    found, expected = _numbers(expr, library, _integers("int16", *data))
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("target", "kind"), few_fast_rows(product(PROCESSORS, ["dense", "convolution"]))
)
def test_kernels_use_the_instruction(target: str, kind: str) -> None:
    dot = describe_cpu(resolve_target(target)).dot
    assert dot is not None
    types = dot.data, dot.weights
    # Two products of -128 do not fit the 16 bits that `smlal` adds them in.
    if kind == "dense":
        expr = _dense(types, (16, 32), 64, symmetric=True)
    else:
        expr = _conv(types, (1, 16, 8, 8), 32, 3, symmetric=True)
    library, _ = _build(expr, target)
    assembly = library.lib.get_source("asm")
    assert len(re.findall(rf"\b{PROCESSORS[target][0]}\s", assembly)) > 1
