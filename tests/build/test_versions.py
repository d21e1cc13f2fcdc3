from __future__ import annotations

import json
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tvm_fusionx as fx
from tests.counting.test_emulator import require_counting
from tests.devices.emulated_board import emulated_boards
from tests.quantized_models import Layers, meaning, step_of_last
from tests.tiny_models import perceptron
from tvm_fusionx.build.archive import METADATA, SEVERAL_CORES_VERSION
from tvm_fusionx.build.library import load_programs, save_library
from tvm_fusionx.build.programs import Programs
from tvm_fusionx.build.versions import fitting, resolved_targets
from tvm_fusionx.counting.count import Count, count_library
from tvm_fusionx.counting.library_run import run_library
from tvm_fusionx.devices import open_session
from tvm_fusionx.errors import TargetError
from tvm_fusionx.processors.core_features import FEATURES

ARM = "llvm -mtriple=aarch64-linux-gnu -num-cores=1 -mcpu="
COMPILER = "aarch64-linux-gnu-g++"
# Core: what multiplies bytes there, most of its multiply-adds, and products for each of them: of
# `smlal` eight of its own, and eight of the multiplication before it.
CORES = {
    "cortex-a53": ("smlal", 16),
    "cortex-a76": ("sdot", 16),
    "neoverse-n2": ("smmla", 32),
}
ROWS, DEPTH, COLUMNS = 16, 128, 64


class Case(SimpleNamespace):
    """A quantized product in versions for three cores."""

    path: Path
    x: np.ndarray
    expected: np.ndarray
    step: float
    built: Programs


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    require_counting()
    folder = tmp_path_factory.mktemp("versions")
    layers = Layers(ROWS, DEPTH)
    y = layers.add("MatMul", "x", layers.weights(DEPTH, COLUMNS))
    model = layers.quantized(y, folder)
    built = fx.build(model, [ARM + core for core in CORES], shapes=[{}])
    assert isinstance(built, Programs)
    path = folder / "versions.tar"
    save_library(built.programs, path, compiler=COMPILER)
    x = layers.input()
    return Case(path=path, x=x, expected=meaning(model, x), step=step_of_last(model), built=built)


@pytest.fixture(scope="module")
def counts(case: Case) -> dict[str, Count]:
    return {
        core: count_library(case.path, core, inputs={"x": case.x}, with_caches=False, cores=())
        for core in CORES
    }


@pytest.mark.slow
@pytest.mark.parametrize("core", CORES)
def test_each_core_runs_its_version_of_one_file(
    case: Case, counts: dict[str, Count], core: str
) -> None:
    instruction, products = CORES[core]
    count = counts[core]
    np.testing.assert_allclose(count.outputs[0], case.expected, atol=case.step / 2)
    hottest = next(loop for loop in count.loops if loop.multiply_adds)
    assert any(f"{instruction} " in line or f"{instruction}\t" in line for line in hottest.code)
    assert count.total.multiply_adds * products == ROWS * DEPTH * COLUMNS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("core", "runs"), [("cortex-a73", "cortex-a53"), ("neoverse-v1", "cortex-a76")]
)
def test_a_core_runs_no_version_that_only_its_emulation_could(
    case: Case, core: str, runs: str
) -> None:
    # QEMU emulates Neoverse V1 as a core with every extension, SVE2 among them.
    assert run_library(case.path, core, inputs={"x": case.x}).target == f"{ARM}{runs}"


@pytest.mark.slow
def test_a_better_core_executes_less(counts: dict[str, Count]) -> None:
    older, newer, newest = (counts[core].total.instructions for core in CORES)
    assert newer < 0.7 * older
    # Of the two, half the products; but what follows each sum is most of so short a one.
    assert newest < 0.95 * newer


@pytest.mark.slow
def test_a_device_runs_its_version(case: Case) -> None:
    with emulated_boards() as emulation, open_session(emulation.device) as session:
        (program,) = load_programs(case.path, session.load)
        executor = program.executor(session.context)
        executor.set_input("x", case.x)
        executor.run()
        found = executor.get_output(0).numpy()
    # The emulated board has all that its emulator knows.
    assert "neoverse-n2" in program.target
    np.testing.assert_allclose(found, case.expected, atol=case.step / 2)


@pytest.mark.slow
def test_the_file_says_what_each_version_needs(case: Case) -> None:
    with tarfile.open(case.path) as archive:
        held = archive.extractfile(METADATA)
        assert held is not None
        told = json.load(held)
    assert told["format_version"] == SEVERAL_CORES_VERSION
    assert (told["target"], told["needs"]) == (f"{ARM}cortex-a53", [])
    assert [row["target"] for row in told["programs"]] == [f"{ARM}{core}" for core in [*CORES][1:]]
    assert "i8mm" in told["programs"][-1]["needs"]
    assert "i8mm" not in told["programs"][0]["needs"]


def test_a_relay_module_has_versions_too() -> None:
    mod, params = fx.from_onnx(perceptron())
    built = fx.build(mod, [ARM + "cortex-a53", ARM + "cortex-a76"], params=params)
    assert isinstance(built, Programs)
    assert [program.needs == () for program in built.programs] == [True, False]
    # Weights that both pack alike are there once.
    first, second = (program.params for program in built.programs)
    shared = {id(array) for array in first.values()} & {id(array) for array in second.values()}
    assert shared


def _programs(*rows: tuple[str, tuple[str, ...]]) -> list[Any]:
    return [SimpleNamespace(model="m", target=target, needs=needs) for target, needs in rows]


def _core(*features: str) -> Any:
    words = dict.fromkeys((each.word for each in FEATURES.values()), 0)
    for feature in features:
        for bit in FEATURES[feature].bits:
            words[FEATURES[feature].word] |= 1 << bit
    return words.__getitem__


def _unasked(word: int) -> int:
    raise AssertionError(f"asked for {word}")


def test_the_last_version_that_fits_is_taken_with_all_of_its_shapes() -> None:
    plain, dot, mm = ("plain", ()), ("dot", ("dotprod",)), ("mm", ("dotprod", "i8mm"))
    programs = _programs(plain, plain, dot, dot, mm, mm)
    assert fitting(programs, _core()) == tuple(programs[:2])
    assert fitting(programs, _core("dotprod", "lse")) == tuple(programs[2:4])
    assert fitting(programs, _core("i8mm")) == tuple(programs[:2])
    assert fitting(programs, _core("dotprod", "i8mm")) == tuple(programs[4:])


def test_one_version_asks_no_core() -> None:
    programs = _programs(("dot", ("dotprod",)), ("dot", ("dotprod",)))
    assert fitting(programs, _unasked) == tuple(programs)


def test_a_core_that_no_version_fits_is_told_what_it_lacks() -> None:
    programs = _programs(("dot", ("dotprod", "lse")), ("mm", ("i8mm",)))
    with pytest.raises(TargetError, match=r"a core with dotprod, lse.*found lse"):
        fitting(programs, _core("lse"))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([], "at least one"),
        ([ARM + "cortex-a76", ARM + "cortex-a76"], "no two the same"),
        ([ARM + "cortex-a76", "llvm"], "AArch64 under Linux or Android"),
        ([ARM + "cortex-a76", "opencl"], "AArch64 under Linux or Android"),
        ([ARM + "cortex-a99"], "a CPU that LLVM knows"),
        ([ARM + "cortex-a76", 3], "a string such as"),
    ],
)
def test_targets_that_make_no_versions_are_refused(targets: list[Any], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        resolved_targets(targets)
