from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relay

import tvm_fusionx as fx
from tests.bundle.java_machine import glue, java, jni_library
from tests.bundle.small_bundles import (
    ARM,
    LOCAL,
    NAME,
    answer,
    bundle,
    compiled,
    inputs,
    library,
    need,
    network,
    run,
    written_inputs,
)
from tests.relay_modules import TARGET, module, var
from tvm_fusionx.bundle.export import bundle_files, export_bundle
from tvm_fusionx.bundle.names import class_name
from tvm_fusionx.devices import find_device
from tvm_fusionx.devices.android_link import check_for_android, link_with_lld
from tvm_fusionx.devices.elf import read_elf
from tvm_fusionx.devices.emulation import EMULATOR, SYSROOT, why_no_emulation
from tvm_fusionx.errors import LinkError, ModelError, OutputFileError, TargetError

HERE = Path(__file__).resolve().parent
POOL = HERE.parents[1] / "tvm_fusionx" / "runtime" / "pool"
CPP = ("g++", "-std=c++11", "-x", "c++")

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


def _outputs(program: list[str | Path], folder: Path, given: list[Path]) -> tuple[bytes, ...]:
    paths = [folder / f"out{number}" for number in range(4)]
    run([*program, *given, *paths])
    return tuple(path.read_bytes() for path in paths)


def test_a_bundle_is_what_it_says_and_nothing_more() -> None:
    files = {path.name for path in bundle().iterdir() if path.is_file()}
    assert files == {*bundle_files(NAME)} - {f"{NAME}.weights"}
    assert (bundle(weights="beside") / f"{NAME}.weights").is_file()


@pytest.mark.parametrize("options", [("gcc", "-std=c99"), CPP], ids=["c99", "c++11"])
@pytest.mark.parametrize("weights", ["embedded", "beside"])
def test_the_example_answers_as_the_graph_executor_to_the_bit(
    options: tuple[str, ...], weights: str, tmp_path: Path
) -> None:
    need(options[0])
    folder = bundle(weights=weights)
    program = compiled(folder / "main.c", tmp_path / "main", [folder], options)
    file = [folder / f"{NAME}.weights"] if weights == "beside" else []
    assert _outputs([program, *file], tmp_path, written_inputs(tmp_path)) == answer()


def test_a_run_keeps_within_its_arena_and_malformed_calls_are_refused(tmp_path: Path) -> None:
    program = compiled(HERE / "guarded.c", tmp_path / "guarded", [bundle()])
    run([program, *written_inputs(tmp_path), tmp_path / "out"])
    assert (tmp_path / "out").read_bytes() == b"".join(answer()) * 2


def test_models_and_instances_share_a_program_and_a_launcher_has_tasks(tmp_path: Path) -> None:
    folders = [bundle(), bundle(name="other", tasks=3)]
    (tmp_path / "expected").write_bytes(answer()[1])
    options = ("gcc", "-std=gnu99")
    program = compiled(HERE / "two_models.c", tmp_path / "two", folders, options)
    given = [*written_inputs(tmp_path), tmp_path / "expected"]
    assert run([program, *given]) == "0 failures, launched\n"


def test_our_pool_is_a_launcher(tmp_path: Path) -> None:
    need("g++")
    if not (POOL / "pool.cc").is_file():
        pytest.skip("there is no pool of ours")
    run(["g++", "-std=c++17", "-O2", "-c", POOL / "pool.cc", "-o", tmp_path / "pool.o"])
    folders = [bundle(), bundle(name="other", tasks=3)]
    (tmp_path / "expected").write_bytes(answer()[1])
    options = ("gcc", "-std=gnu99", "-DWITH_POOL", f"-I{POOL}", str(tmp_path / "pool.o"))
    program = compiled(HERE / "two_models.c", tmp_path / "two", folders, options)
    given = [*written_inputs(tmp_path), tmp_path / "expected"]
    assert run([program, *given]) == "0 failures, launched\n"


def test_memory_is_right_by_valgrind(tmp_path: Path) -> None:
    need("valgrind")
    program = compiled(bundle() / "main.c", tmp_path / "main", [bundle()])
    checked: list[str | Path] = ["valgrind", "-q", "--error-exitcode=9", program]
    assert _outputs(checked, tmp_path, written_inputs(tmp_path)) == answer()


@pytest.mark.slow
def test_an_arm_board_answers_too(tmp_path: Path) -> None:
    problem = why_no_emulation()
    if problem is not None:
        pytest.skip(problem)
    compiler = "aarch64-linux-gnu-gcc"
    folder = bundle(ARM, compiler=compiler)
    program = compiled(folder / "main.c", tmp_path / "main", [folder], (compiler, "-std=c99"))
    emulated: list[str | Path] = [EMULATOR, "-L", SYSROOT, program]
    found = _outputs(emulated, tmp_path, written_inputs(tmp_path))
    for one, two in zip(found, answer(), strict=True):
        numbers = np.frombuffer(two, "float32")
        error = np.abs(np.frombuffer(one, "float32") - numbers).max()
        assert error <= 1e-5 * np.abs(numbers).max()
    guarded = compiled(HERE / "guarded.c", tmp_path / "guarded", [folder], (compiler, "-std=gnu99"))
    run([EMULATOR, "-L", SYSROOT, guarded, *written_inputs(tmp_path), tmp_path / "out"])
    assert (tmp_path / "out").read_bytes() == b"".join(found) * 2


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_project_of_cmake_builds(tasks: int, tmp_path: Path) -> None:
    """With tasks it links our pool, whose sources lie in the folder."""
    need("cmake", "make", "g++")
    run(["cmake", "-S", bundle(tasks=tasks), "-B", tmp_path])
    run(["cmake", "--build", tmp_path])
    is_pool_linked = b"fusionx_parallel_launch" in (tmp_path / "net_example").read_bytes()
    assert is_pool_linked == (tasks > 1) == (bundle(tasks=tasks) / "fusionx_pool").is_dir()
    assert _outputs([tmp_path / "net_example"], tmp_path, written_inputs(tmp_path)) == answer()


@pytest.mark.parametrize("weights", ["embedded", "beside"])
def test_the_loader_answers_in_python(weights: str) -> None:
    path = bundle(weights=weights) / f"{NAME}.py"
    spec = importlib.util.spec_from_file_location(f"{NAME}_{weights}", path)
    assert spec is not None
    assert spec.loader is not None
    loaded: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    model = loaded.Model()
    assert tuple(array.tobytes() for array in model.run(**inputs())) == answer()
    with pytest.raises(ValueError, match="input x: expected"):
        model.run(x=np.zeros(3, "float32"), in_scale=inputs()["in_scale"])
    with pytest.raises(ValueError, match="inputs: expected"):
        model.run(x=inputs()["x"])
    nothing = [loaded.aligned((0, 3), "float32") for _ in range(16)]
    assert all(array.ctypes.data % loaded.ALIGNMENT == 0 for array in nothing)


@pytest.mark.slow
def test_a_java_machine_gets_the_same_answer(tmp_path: Path) -> None:
    """In one thread and in several of our pool."""
    need("g++")
    program, _ = java()
    library = jni_library(bundle(tasks=3), tmp_path)
    started: list[str | Path] = [program, HERE / "Net.java", library]
    assert _outputs(started, tmp_path, written_inputs(tmp_path)) == answer()


@pytest.mark.slow
def test_the_class_of_kotlin_gets_the_same_answer(tmp_path: Path) -> None:
    need("kotlinc", "g++")
    program, _ = java()
    folder, classes = bundle(tasks=3), tmp_path / "net.jar"
    jni_library(folder, tmp_path)
    sources = [folder / f"{class_name(NAME)}.kt", HERE / "Main.kt"]
    run(["kotlinc", *sources, "-include-runtime", "-d", classes])
    started = [program, f"-Djava.library.path={tmp_path}", "-cp", classes, "fusionx.MainKt"]
    assert _outputs(started, tmp_path, written_inputs(tmp_path)) == answer()


@pytest.mark.slow
def test_android_loads_the_library_and_its_glue(tmp_path: Path) -> None:
    compiler = "aarch64-linux-gnu-gcc"
    need("ld.lld", compiler)
    folder = tmp_path / NAME
    phone = fx.build(network(), find_device("android-arm64").tvm_target())
    export_bundle(phone, folder, device="android-arm64")
    check_for_android(folder / f"lib{NAME}.so")
    found = read_elf(folder / f"lib{NAME}.so")
    assert {f"{NAME}_run", f"{NAME}_open_weights"} <= found.defined
    made = glue(folder, tmp_path / "jni.o", compiler)
    library = tmp_path / "libnet_jni.so"
    link_with_lld(str(library), [str(made), str(folder / f"lib{NAME}.a")])
    check_for_android(library)
    assert f"Java_fusionx_{class_name(NAME)}_nativeRun" in read_elf(library).defined


def test_kernels_that_were_kept_are_in_it_and_hidden(tmp_path: Path) -> None:
    with fx.kernel_cache(tmp_path / "kernels"):
        fx.build(network(), LOCAL)
        export_bundle(fx.build(network(), LOCAL), tmp_path / NAME)
    assert "fusionx_kernel" not in run(
        ["nm", "-D", "--defined-only", tmp_path / NAME / f"lib{NAME}.so"]
    )
    program = compiled(tmp_path / NAME / "main.c", tmp_path / "main", [tmp_path / NAME])
    assert _outputs([program], tmp_path, written_inputs(tmp_path)) == answer()


def test_the_header_tells_the_plan(tmp_path: Path) -> None:
    memory = export_bundle(library(), tmp_path / NAME)
    header = (tmp_path / NAME / f"{NAME}.h").read_text()
    assert f"NET_ARENA_BYTES ((size_t){memory.plan.arena_bytes}u)" in header
    assert "const float *in_scale; /* in/scale [1, 32, 1, 1] float32 */" in header
    assert memory.workspace > 0


def test_bundles_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    export_bundle(library(), tmp_path / NAME)
    again = tmp_path / NAME
    # Who loaded it left what Python compiled of its loader.
    for file in filter(Path.is_file, bundle().iterdir()):
        assert (again / file.name).read_bytes() == file.read_bytes(), file.name


def test_a_folder_of_something_else_stays(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(OutputFileError, match=r"holds mine\.txt"):
        export_bundle(library(), tmp_path, name=NAME)
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_what_cannot_be_a_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="name of the bundle"):
        export_bundle(library(), tmp_path / "2 models")
    program: Any = fx.build(module(relay.exp(var("x", 4))), TARGET, executor="vm")
    with pytest.raises(ModelError, match=r"as fx\.build returns; found VmProgram"):
        export_bundle(program, tmp_path / NAME)
    with pytest.raises(ValueError, match="weights: expected"):
        export_bundle(library(), tmp_path / NAME, weights="elsewhere")
    tasks: Any
    for tasks in (0, 65, 1.5, True, "2"):
        with pytest.raises(ValueError, match=f"tasks: expected 1 to 64; found {tasks!r}"):
            export_bundle(library(), tmp_path / NAME, tasks=tasks)
    assert not any(tmp_path.iterdir())


def test_kernels_of_tvms_runtime_are_refused(tmp_path: Path) -> None:
    lib = fx.build(module(relay.argsort(var("x", 16))), LOCAL)
    with pytest.raises(LinkError, match="found calls of __TVMBackendGetFuncFromEnv, __TVMFuncCall"):
        export_bundle(lib, tmp_path / NAME)


def test_a_program_for_a_device_is_refused(tmp_path: Path) -> None:
    class OnGpu(type(library())):  # type: ignore[misc]
        """As a library, of another target."""

    lib: Any = OnGpu.__new__(OnGpu)
    lib.__dict__.update(vars(library()), target="cuda")
    with pytest.raises(TargetError, match=r"a CPU \(llvm\), or opencl; found cuda"):
        export_bundle(lib, tmp_path / NAME)
