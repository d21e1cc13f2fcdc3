from __future__ import annotations

import importlib.util
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.bundle.small_bundles import compiled, inputs, need, run, written_inputs
from tests.opencl_device import require_opencl
from tests.relay_modules import const, module, var
from tvm_fusionx.build.fused_build import BUILT_FROM
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.bundle.device_description import (
    DEVICE_ALIGNMENT,
    buffer_bytes,
    launches_of_graph,
    sources_of,
)
from tvm_fusionx.bundle.export import export_bundle
from tvm_fusionx.devices.android_link import check_for_android
from tvm_fusionx.devices.elf import read_elf
from tvm_fusionx.errors import TargetError
from tvm_fusionx.memory import ALIGNMENT

TARGET = "opencl"
HERE = Path(__file__).resolve().parent

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


def _network() -> tvm.IRModule:
    """Return a small network: a window, kernels of several stages, a view, an input, a constant."""
    x, scale = var("x", 1, 16, 32, 32), var("in/scale", 1, 32, 1, 1)
    window = relay.nn.relu(relay.nn.conv2d(x, const(32, 16, 3, 3), padding=(1, 1)) * scale)
    rows = relay.nn.softmax(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(window)))
    largest = relay.cast(relay.argmax(window, axis=1), "float32")
    return module(rows, largest, relay.reshape(rows, (4, 8)), scale, params=[x, scale])


@cache
def _library() -> Any:
    require_opencl()
    return fx.build(_network(), TARGET)


@cache
def _answer() -> tuple[bytes, ...]:
    executor = graph_executor.GraphModule(_library()["default"](tvm.opencl(0)))
    x, scale = inputs().values()
    executor.run(x=x, **{"in/scale": scale})
    count = executor.get_num_outputs()
    return tuple(executor.get_output(number).numpy().tobytes() for number in range(count))


@pytest.fixture(scope="module", name="folder")
def fixture_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("opencl") / "net"
    memory = export_bundle(_library(), folder, weights="beside")
    assert not any(offset % DEVICE_ALIGNMENT for offset in memory.plan.offsets)
    return folder


def test_the_example_answers_as_the_graph_executor_to_the_bit(folder: Path, tmp_path: Path) -> None:
    program = compiled(folder / "main.c", tmp_path / "main", [folder])
    paths = [tmp_path / f"out{number}" for number in range(4)]
    run([program, folder / "net.weights", *written_inputs(tmp_path), *paths])
    assert tuple(path.read_bytes() for path in paths) == _answer()


def test_the_library_needs_nothing_of_opencl_to_be_loaded(folder: Path) -> None:
    listed = run(["objdump", "-p", folder / "libnet.so"])
    assert "OpenCL" not in listed


def test_python_runs_it_and_closes_it(folder: Path) -> None:
    spec = importlib.util.spec_from_file_location("net_opencl", folder / "net.py")
    assert spec is not None
    assert spec.loader is not None
    loaded: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    first, second = loaded.Model(), loaded.Model()
    for model in (first, second, first):
        assert tuple(array.tobytes() for array in model.run(**inputs())) == _answer()
    first.close()
    assert tuple(array.tobytes() for array in second.run(**inputs())) == _answer()
    second.close()
    with pytest.raises(RuntimeError, match="a pointer that is needed is null"):
        second.run(**inputs())


def test_malformed_calls_are_refused_and_threads_take_turns(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "expected").write_bytes(_answer()[1])
    options = ("gcc", "-std=gnu99")
    program = compiled(HERE / "opencl_calls.c", tmp_path / "calls", [folder], options)
    given = [folder / "net.weights", *written_inputs(tmp_path), tmp_path / "expected"]
    assert run([program, *given]) == "0 failures\n"


def test_without_drivers_there_is_a_status(folder: Path, tmp_path: Path) -> None:
    program = compiled(folder / "main.c", tmp_path / "main", [folder])
    empty = tmp_path / "vendors"
    empty.mkdir()
    given: list[str | Path] = ["env", f"OCL_ICD_VENDORS={empty}", program, folder / "net.weights"]
    assert run(given, code=1) == ""


def test_a_phone_loads_the_library_without_opencl(tmp_path: Path) -> None:
    need("ld.lld", "aarch64-linux-gnu-gcc")
    export_bundle(_library(), tmp_path / "net", device="android-arm64")
    check_for_android(tmp_path / "net" / "libnet.so")
    found = read_elf(tmp_path / "net" / "libnet.so")
    assert "dlopen" in found.undefined
    assert {"net_run", "net_close_weights"} <= found.defined


def test_what_lies_on_no_device_is_refused(tmp_path: Path) -> None:
    for options in ({"weights": "streamed"}, {"tasks": 2}):
        chosen: dict[str, Any] = options
        with pytest.raises(TargetError, match="bundle for OpenCL: expected weights that lie"):
            export_bundle(_library(), tmp_path / "net", **chosen)
    graph = KernelGraph.from_json(_library().get_graph_json())
    images = [replace(node, scope="global.texture") for node in graph.nodes]
    with pytest.raises(TargetError, match="expected a buffer; found an image"):
        launches_of_graph(replace(graph, nodes=tuple(images)), getattr(_library(), BUILT_FROM)[1])


def test_each_program_has_its_own_kernel_alone() -> None:
    declared = "__kernel void a(float x);\n__kernel void b(float x);\n"
    text = (
        f"// Function: a\n{declared}__kernel void a(float x) {{\n}}\n\n// Function: b\n{declared}"
    )
    found = sources_of(f"{text}__kernel void b(float x) {{\n  f();\n}}\n")
    assert found["a"] == "__kernel void a(float x) {\n}\n\n"
    assert found["b"] == "__kernel void b(float x) {\n  f();\n}\n"
    assert [buffer_bytes(size) for size in (0, 1, 512, 513)] == [512, 512, 512, 1024]
    assert DEVICE_ALIGNMENT % ALIGNMENT == 0
