from __future__ import annotations

import ctypes
import importlib.util
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relay

import tvm_fusionx as fx
from tests.build.test_memory import GRAPH
from tests.bundle.small_bundles import LOCAL, compiled, executed, need, run
from tests.bundle.test_in_place import GUARDED, allocator
from tests.relay_modules import const, module, var
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.build.memory import memory_of
from tvm_fusionx.bundle.export import export_bundle
from tvm_fusionx.bundle.streaming import Load, loaded_bytes, loads_of, streamed
from tvm_fusionx.devices import find_device
from tvm_fusionx.devices.android_link import check_for_android
from tvm_fusionx.devices.elf import read_elf
from tvm_fusionx.errors import ModelError

WIDTH, LAYERS = 128, 4
LAYER_BYTES = WIDTH * WIDTH * 4


def test_a_kernel_reads_each_of_its_constants_once() -> None:
    graph = KernelGraph.from_json(GRAPH.replace("[[0, 0, 0], [1, 0, 0]]", "[[1, 0, 0], [1, 0, 0]]"))
    first, second, _ = graph.kernels
    assert loads_of(graph, first, {"p0"}) == [Load("p0", 0, 64)]
    assert loads_of(graph, second, {"p0"}) == []
    assert loaded_bytes([Load("a", 0, 65), Load("b", 128, 1)]) == 192


def test_constants_are_a_part_of_the_arena() -> None:
    memory = memory_of(GRAPH, {"p0": None}, {})
    found = streamed(memory, KernelGraph.from_json(GRAPH), {"p0"})
    assert (memory.weights, found.weights) == (64, 0)
    assert [call.workspace_bytes for call in found.plan.program.calls] == [64, 0, 0]


@cache
def _library() -> Any:
    rows: relay.Expr = var("x", 16, WIDTH)
    for layer in range(LAYERS):
        rows = relay.nn.softmax(relay.nn.dense(rows, const(WIDTH, WIDTH, seed=layer)))
    return fx.build(module(rows), LOCAL)


def _given() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((16, WIDTH)).astype("float32")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_a_run_takes_one_layer_at_a_time_and_nothing_beside_its_arena(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    memory = export_bundle(_library(), folder, weights="streamed")
    assert LAYER_BYTES <= memory.plan.arena_bytes < 2 * LAYER_BYTES
    _given().tofile(tmp_path / "x")
    program = compiled(
        folder / "main.c", tmp_path / "main", [folder], [*GUARDED, allocator(tmp_path)]
    )
    words = [program, folder / "deep.weights", tmp_path / "x", tmp_path / "out"]
    run(words)
    assert [(tmp_path / "out").read_bytes()] == executed(_library(), {"x": _given()})
    content = (folder / "deep.weights").read_bytes()
    for wrong in (content[:-1], content[:40] + b"?" + content[41:], b""):
        (tmp_path / "wrong").write_bytes(wrong)
        run([program, tmp_path / "wrong", tmp_path / "x", tmp_path / "out"], code=1)
    run([program, tmp_path / "none", tmp_path / "x", tmp_path / "out"], code=1)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_a_file_that_shrinks_under_a_run_is_a_status(tmp_path: Path) -> None:
    folder = tmp_path / "deep"
    export_bundle(_library(), folder, weights="streamed")
    spec = importlib.util.spec_from_file_location("deep_streamed", folder / "deep.py")
    assert spec is not None
    assert spec.loader is not None
    loaded: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    model = loaded.Model()
    (found,) = model.run(x=_given())
    assert [found.tobytes()] == executed(_library(), {"x": _given()})
    weights = ctypes.byref(model._weights)
    assert model._library.deep_verify_weights(weights) == 0
    with (folder / "deep.weights").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(RuntimeError, match="weights"):
        model.run(x=_given())
    assert model._library.deep_verify_weights(weights) != 0
    model._library.deep_close_weights(weights)
    with pytest.raises(RuntimeError, match="null"):
        model.run(x=_given())


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_a_limit_that_only_streamed_weights_keep(tmp_path: Path) -> None:
    place = tmp_path / "deep"
    needed = export_bundle(_library(), place, weights="streamed").total
    export_bundle(_library(), place, weights="streamed", memory_limit=needed)
    for weights, limit in (("streamed", needed - 1), ("beside", needed)):
        with pytest.raises(ModelError, match="memory of the model"):
            export_bundle(_library(), tmp_path / "b" / "deep", weights=weights, memory_limit=limit)
    assert not (tmp_path / "b").exists()


def test_a_constant_that_is_returned_is_refused(tmp_path: Path) -> None:
    mod = module(relay.nn.relu(var("x", 4)), const(4))
    library = fx.build(mod, LOCAL)
    with pytest.raises(ModelError, match="streamed weights"):
        export_bundle(library, tmp_path / "deep", weights="streamed")


@pytest.mark.slow
def test_a_phone_loads_it(tmp_path: Path) -> None:
    need("ld.lld", "aarch64-linux-gnu-gcc")
    rows = relay.nn.dense(var("x", 4, 16), const(16, 16))
    library = fx.build(module(rows), find_device("android-arm64").tvm_target())
    export_bundle(library, tmp_path / "net", weights="streamed", device="android-arm64")
    check_for_android(tmp_path / "net" / "libnet.so")
    assert "pread" in read_elf(tmp_path / "net" / "libnet.so").undefined
