"""The examples: they build with a bundle, and what they run is right."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.bundle.java_machine import glue, java
from tests.bundle.small_bundles import LOCAL, STRICT, need, run
from tests.relay_modules import const, module, var
from tvm_fusionx.bundle.export import export_bundle
from tvm_fusionx.devices import find_device
from tvm_fusionx.devices.android_link import check_for_android, link_with_lld

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
# Resources of Android 10, from Debian.
FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")
SDKS = ("min", "target")


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
    """With the pool: Debian's compiler takes it for Android, but for one function of bionic's."""
    compiler, cpp = "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++"
    need("ld.lld", compiler, cpp)
    phone = find_device("android-arm64")
    bundle = tmp_path / "mobilenet"
    export_bundle(fx.build(_scores(), phone.tvm_target()), bundle, tasks=4, device="android-arm64")
    made, pool = glue(bundle, tmp_path / "glue.o", compiler), tmp_path / "pool.o"
    bionic = tmp_path / "bionic.h"
    bionic.write_text('#include <pthread.h>\nextern "C" pid_t pthread_gettid_np(pthread_t);\n')
    options = ["-std=c++17", "-O2", "-fPIC", "-fno-exceptions", "-fno-rtti", "-mno-outline-atomics"]
    words = [cpp, *options, "-U_FORTIFY_SOURCE", "-D__BIONIC__", "-include", bionic]
    run([*words, "-c", bundle / "fusionx_pool/pool.cc", "-o", pool])
    library = bundle / "libmobilenet.a"
    link_with_lld(str(tmp_path / "all.so"), [str(made), str(library), str(pool)])
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
        line.removesuffix(" : Closeable {") for line in kotlin.splitlines()
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


@pytest.mark.slow
def test_the_app_answers_in_a_java_machine(tmp_path: Path) -> None:
    """Its own sources and CMake files, a bundle for this machine, and classes like Android's."""
    need("kotlinc", "javac", "cmake", "make", "gcc", "g++")
    program, headers = java()
    shutil.copytree(EXAMPLES / "android", tmp_path / "app")
    app, libraries, classes = tmp_path / "app/app/src/main", tmp_path / "lib", tmp_path / "classes"
    made = fx.build(_scores(), LOCAL)
    export_bundle(made, app / "cpp/mobilenet", tasks=4)
    flags = f"-DCMAKE_C_FLAGS={' '.join([*STRICT, *headers])}"
    run(["cmake", "-S", app / "cpp", "-B", libraries, "-DANDROID=ON", flags])
    run(["cmake", "--build", libraries])
    folder = libraries / "mobilenet"
    assert {path.name for path in folder.glob("*.so")} == {
        "libfusionx_pool.so",
        "libmobilenet_jni.so",
    }
    run(["javac", "-d", classes, *HERE.glob("bundle/android_classes/**/*.java")])
    kotlin = [*app.glob("kotlin/**/*.kt"), *app.glob("cpp/**/*.kt")]
    jar = tmp_path / "app.jar"
    run(["kotlinc", *kotlin, "-cp", classes, "-include-runtime", "-d", jar])
    started = [program, f"-Djava.library.path={folder}", "-cp", f"{jar}:{classes}"]
    said = run([*started, "android.app.Activity", "fusionx.example.MainActivity"])
    executor = graph_executor.GraphModule(made["default"](tvm.cpu()))
    executor.run(image=np.full((1, 3, 16, 16), 0.5, "float32"))
    best = executor.get_output(0).numpy().argmax()
    assert re.fullmatch(rf"class {best}, \d+ ms\n", said)


def test_the_manifest_is_one_of_android(tmp_path: Path) -> None:
    """As Gradle hands it to the packer: with the package, and the levels of the build file."""
    need("aapt")
    if not FRAMEWORK.is_file():
        pytest.skip(f"there is no {FRAMEWORK} (Debian: android-framework-res)")
    app = EXAMPLES / "android/app"
    build = (app / "build.gradle.kts").read_text()
    package = re.findall(r'namespace = "(.*)"', build)[0]
    levels = [re.findall(rf"{each}Sdk = (\d+)", build)[0] for each in SDKS]
    text = (app / "src/main/AndroidManifest.xml").read_text()
    manifest = tmp_path / "AndroidManifest.xml"
    manifest.write_text(text.replace("<manifest ", f'<manifest package="{package}" ', 1))
    words = ["aapt", "package", "-f", "-M", manifest, "-I", FRAMEWORK, "-F", tmp_path / "app.apk"]
    for sdk, level in zip(SDKS, levels, strict=True):
        words += [f"--{sdk}-sdk-version", level]
    run(words)
    said = run(["aapt", "dump", "badging", tmp_path / "app.apk"])
    assert f"launchable-activity: name='{package}.MainActivity'" in said
    assert f"sdkVersion:'{levels[0]}'" in said


def test_the_manifest_is_readable_and_nothing_built_lies_there() -> None:
    manifest = EXAMPLES / "android/app/src/main/AndroidManifest.xml"
    assert ElementTree.parse(manifest).getroot().tag == "manifest"
    assert not (EXAMPLES / "android/app/src/main/cpp/mobilenet").exists()
