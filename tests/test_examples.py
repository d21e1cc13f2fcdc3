"""The examples: they build with a bundle, and what they run is right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.bundle.java_machine import glue
from tests.bundle.small_bundles import LOCAL, need, run
from tests.relay_modules import const, module, var
from tvm_fusionx.bundle.export import export_bundle
from tvm_fusionx.devices import find_device
from tvm_fusionx.devices.android_link import check_for_android, link_with_lld

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def _scores() -> tvm.IRModule:
    """Return a model of a picture and a row of scores, by the names of the zoo's."""
    window = relay.nn.conv2d(var("image", 1, 3, 16, 16), const(16, 3, 3, 3), strides=(2, 2))
    flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(relay.nn.relu(window)))
    return module(relay.nn.softmax(relay.nn.dense(flat, const(10, 16, seed=1))))


def test_the_program_for_linux_classifies(tmp_path: Path) -> None:
    need("gcc", "g++", "cmake", "make")
    library = fx.build(_scores(), LOCAL)
    bundle = tmp_path / "mobilenet"
    export_bundle(library, bundle, weights="beside")
    run(["cmake", "-S", EXAMPLES / "linux", "-B", tmp_path / "build", f"-DBUNDLE={bundle}"])
    run(["cmake", "--build", tmp_path / "build"])
    picture = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype("float32")
    picture.tofile(tmp_path / "a.f32")
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(image=picture)
    scores = executor.get_output(0).numpy()[0]
    best = " ".join(f"{n} ({scores[n]:.3f})" for n in np.argsort(-scores, kind="stable")[:5])
    program, weights = tmp_path / "build" / "classify", bundle / "mobilenet.weights"
    assert run([program, weights, tmp_path / "a.f32"]) == f"{tmp_path / 'a.f32'}: {best}\n"
    run([program, weights, bundle / "main.c"], code=2)
    run([program, tmp_path / "a.f32", tmp_path / "a.f32"], code=2)
    _check_threads(program.with_name("classify_threads"), weights, library)


def _check_threads(program: Path, weights: Path, library: Any) -> None:
    """Compare what two threads say of pictures with what the graph executor does."""
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    paths, lines = [weights.with_name(f"{number}.f32") for number in range(9)], []
    for number, path in enumerate(paths):
        picture = np.random.default_rng(number).standard_normal((1, 3, 16, 16)).astype("float32")
        picture.tofile(path)
        executor.run(image=picture)
        scores = executor.get_output(0).numpy()[0]
        lines.append(f"{path}: {scores.argmax()} ({scores.max():.3f})\n")
    assert run([program, weights, *paths]) == "".join(lines)
    missing = weights.with_name("none.f32")
    assert run([program, weights, missing]) == f"{missing}: no such picture\n"
    run([program, paths[0], paths[0]], code=2)
    run([program, weights], code=2)


@pytest.mark.slow
def test_the_library_of_the_android_app_links(tmp_path: Path) -> None:
    compiler = "aarch64-linux-gnu-gcc"
    need("ld.lld", compiler)
    phone = find_device("android-arm64")
    bundle = tmp_path / "mobilenet"
    export_bundle(fx.build(_scores(), phone.tvm_target()), bundle, device="android-arm64")
    made = glue(bundle, tmp_path / "glue.o", compiler)
    link_with_lld(str(tmp_path / "all.so"), [str(made), str(bundle / "libmobilenet.a")])
    check_for_android(tmp_path / "all.so")
    _check_names(bundle)


def _check_names(bundle: Path) -> None:
    """Compare what the app uses with what the bundle's class and glue have."""
    app = EXAMPLES / "android" / "app"
    activity = (app / "src/main/kotlin/fusionx/example/MainActivity.kt").read_text()
    kotlin = (bundle / "Mobilenet.kt").read_text()
    fields = set(re.findall(r"\bval (\w+): ByteBuffer", kotlin))
    assert set(re.findall(r"model\.(\w+)\.asFloatBuffer", activity)) == fields
    assert "import fusionx.Mobilenet\n" in activity
    assert {"package fusionx", "class Mobilenet(weights: String? = null)"} <= {
        line.removesuffix(" : AutoCloseable {") for line in kotlin.splitlines()
    }
    declared = set(re.findall(r"external fun (\w+)\(", kotlin))
    made = set(
        re.findall(r"Java_fusionx_Mobilenet_(\w+)\(", (bundle / "mobilenet_jni.c").read_text())
    )
    assert declared == made
    assert 'loadLibrary("mobilenet_jni")' in kotlin
    cmake = (bundle / "CMakeLists.txt").read_text()
    assert "add_library(mobilenet_jni SHARED mobilenet_jni.c)" in cmake
    assert "src/main/cpp/mobilenet" in (app / "build.gradle.kts").read_text()


def test_the_manifest_is_readable_and_nothing_built_lies_there() -> None:
    manifest = EXAMPLES / "android/app/src/main/AndroidManifest.xml"
    assert ElementTree.parse(manifest).getroot().tag == "manifest"
    assert not (EXAMPLES / "android/app/src/main/cpp/mobilenet").exists()
