from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from tests.relay_modules import TARGET, blocks_of, const, graph, operator_names, var
from tvm_fusionx.fusion.border import border_of
from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.lowering import lowering
from tvm_fusionx.measuring.block_timer import BlockTimer, block_module, time_library
from tvm_fusionx.passes import PackSparse
from tvm_fusionx.processors.targets import resolve_target

x = var("x", 4, 8)


class Clock:
    """Stands for a device: counts what it is asked to run."""

    def __init__(self, microseconds: float = 3.0) -> None:
        self.microseconds = microseconds
        self.modules: list[tvm.IRModule] = []

    def __call__(self, _: Any, mod: tvm.IRModule) -> float:
        self.modules.append(mod)
        return self.microseconds


@pytest.fixture
def database(tmp_path: Path) -> ProfileDatabase:
    return ProfileDatabase(tmp_path / "profiles.sqlite")


def test_a_block_is_run_for_real(database: ProfileDatabase) -> None:
    found = graph(relay.nn.dense(relay.exp(x), const(16, 8)))
    microseconds = BlockTimer(TARGET, database)(found, tuple(found.calls()))
    assert 0 < microseconds < math.inf
    (kept,) = database.profiles()
    assert kept.microseconds == microseconds
    assert kept.signature == "exp+nn.dense -> float32[4, 16]"
    assert kept.measured_at > 0


def test_equal_blocks_are_measured_once(database: ProfileDatabase) -> None:
    found = graph(relay.nn.dense(relay.nn.dense(x, const(8, 8)), const(8, 8, seed=1)))
    first, second = found.calls()
    clock = Clock()
    timer = BlockTimer(TARGET, database, clock)
    assert timer(found, (first,)) == timer(found, (second,)) == clock.microseconds
    assert len(clock.modules) == 1
    assert BlockTimer(TARGET, database, clock)(found, (first,)) == clock.microseconds
    assert len(clock.modules) == 1


def test_halves_are_measured_as_they_are_computed(database: ProfileDatabase) -> None:
    half = var("h", 4, 8, dtype="float16")
    found = graph(relay.nn.dense(relay.exp(half), const(16, 8, dtype="float16")))
    clock = Clock()
    BlockTimer(TARGET, database, clock)(found, tuple(found.calls()))
    (block,) = blocks_of(clock.modules[0])
    assert operator_names(block) == ["cast", "cast", "cast", "exp", "nn.dense"]
    assert str(block.body.args[0].checked_type.dtype) == "float32"


def test_what_cannot_run_is_infinitely_slow_and_not_tried_again(database: ProfileDatabase) -> None:
    found = graph(relay.exp(x))
    tried = []

    def fail(_: Any, __: tvm.IRModule) -> float:
        tried.append(1)
        raise ValueError("no such\ndevice")

    timer = BlockTimer(TARGET, database, fail)
    assert timer(found, tuple(found.calls())) == timer(found, tuple(found.calls())) == math.inf
    assert len(tried) == 1
    assert database.profiles()[0].failure == "ValueError: device"


def test_a_module_of_one_block_keeps_its_operators_wiring_and_scalars() -> None:
    first, second = relay.split(relay.exp(x) * relay.const(2.0), 2, axis=1)
    found = graph(relay.tanh(first), second + const(4, 4))
    calls = found.calls()
    mod = block_module(calls, border_of(found, calls, frozenset(found.outputs)))
    (block,) = blocks_of(mod)
    assert operator_names(block.body) == ["add", "exp", "multiply", "split", "tanh"]
    assert len(mod["main"].params) == 2


def test_indices_are_zeros_and_thus_valid() -> None:
    seen = []

    class Library:
        def __getitem__(self, _: str) -> Any:
            return lambda device: seen.append(device)

    table, rows = const(4, 8), var("rows", 3, dtype="int32")
    found = graph(relay.take(table, rows, axis=0))
    calls = found.calls()
    mod = block_module(calls, border_of(found, calls, frozenset(found.outputs)))
    with lowering(TARGET):
        library = relay.build(mod, resolve_target(TARGET))
    assert time_library(library, mod) > 0
    assert np.array(seen).size == 0


def test_lists_of_a_sparse_product_are_its_own(database: ProfileDatabase) -> None:
    x = var("x", 8, 512)
    layers = []
    for kept in (32, 256):
        weight = const(512, 512).data.numpy().copy()
        weight[:, kept:] = 0
        mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, relay.const(weight))))
        packed = PackSparse(TARGET)(relay.transform.InferType()(mod))
        layers.append(graph(packed["main"].body))
    for found, kept in zip(layers, (32, 256), strict=True):
        calls = found.calls()
        assert [node.op for node in calls] == ["fusionx.sparse_dense"]
        mod = block_module(calls, border_of(found, calls, frozenset(found.outputs)))
        assert len(mod["main"].params) == 2
        # A run with the block's own lists: of weights that are ones, each sum is of `kept` numbers.
        with lowering(TARGET):
            library = relay.build(mod, resolve_target(TARGET))
        module = graph_executor.GraphModule(library["default"](tvm.cpu()))
        for place, param in enumerate(mod["main"].params):
            shape = [int(extent) for extent in param.checked_type.shape]
            module.set_input(place, tvm.nd.array(np.ones(shape, "float32")))
        module.run()
        assert np.array_equal(module.get_output(0).numpy(), np.full((8, 512), kept, "float32"))
