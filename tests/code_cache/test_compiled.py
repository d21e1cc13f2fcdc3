"""A second build compiles what changed, and computes the same to the last bit."""

from __future__ import annotations

import functools
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.code_cache.models import model, output
from tests.relay_modules import TARGET
from tvm_fusionx import schedules
from tvm_fusionx.blocks import block as block_module
from tvm_fusionx.build.fused_build import BUILT_FROM
from tvm_fusionx.code_cache import compiled as module
from tvm_fusionx.code_cache.compiled import CompiledKernels, kept_kernels
from tvm_fusionx.code_cache.folder import KernelFolder
from tvm_fusionx.late_passes.workspaces import workspaces_of
from tvm_fusionx.schedules import resolve_target

CPU = resolve_target(TARGET)
ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"


@functools.cache
def _wanted(last: str = "tanh") -> np.ndarray:
    """Return what a model computes that was built without any folder."""
    return output(fx.build(model(last), CPU))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that holds the kernels of the model."""
    folder = tmp_path_factory.mktemp("kept") / "kernels"
    with fx.kernel_cache(folder):
        fx.build(model(), CPU)
    return folder


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Note for each build how many kernels were taken, and how many made."""
    seen: list[tuple[int, int]] = []
    original = CompiledKernels.lower

    def lower(self: CompiledKernels, blocks: Any, *rest: Any) -> Any:
        answers = original(self, blocks, *rest)
        if blocks:
            seen.append((self.taken, self.made))
        return answers

    monkeypatch.setattr(CompiledKernels, "lower", lower)
    return seen


def test_a_changed_model_compiles_what_changed(
    tmp_path: Path, counts: list[tuple[int, int]]
) -> None:
    with fx.kernel_cache(tmp_path / "kernels"):
        first = fx.build(model(), CPU)
        second = fx.build(model(), CPU)
        changed = fx.build(model("exp"), CPU)
    (taken, made), *later = counts
    assert taken == 0
    assert made >= 3
    assert later == [(made, 0), (made - 1, 1)]
    for library, last in ((first, "tanh"), (second, "tanh"), (changed, "exp")):
        np.testing.assert_array_equal(output(library), _wanted(last))


@pytest.fixture
def scheduled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Note each block that is scheduled."""
    seen: list[Any] = []
    original = block_module.schedule_by_record

    def schedule(*words: Any) -> Any:
        seen.append(words)
        return original(*words)

    monkeypatch.setattr(block_module, "schedule_by_record", schedule)
    return seen


def test_a_changed_model_schedules_what_changed(
    tmp_path: Path, full: Path, scheduled: list[Any]
) -> None:
    shutil.copytree(full, tmp_path / "kernels")
    plain = getattr(fx.build(model(), CPU), BUILT_FROM)[1]
    count = len(scheduled)
    assert count >= 3
    with fx.kernel_cache(tmp_path / "kernels"):
        log = getattr(fx.build(model(), CPU), BUILT_FROM)[1]
        assert len(scheduled) == count
        assert log.entries == plain.entries
        fx.build(model("exp"), CPU)
        assert len(scheduled) == count + 1
    for entry, wanted in zip(log.entries, plain.entries, strict=True):
        assert tvm.ir.structural_equal(entry.func, wanted.func)


def test_a_template_that_failed_once_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = schedules._emit

    def lacks_memory(template: str, *words: Any) -> Any:
        if template != "default":
            raise MemoryError("no memory today")
        return original(template, *words)

    with fx.kernel_cache(tmp_path / "kernels"):
        with monkeypatch.context() as today:
            today.setattr(schedules, "_emit", lacks_memory)
            failed = getattr(fx.build(model(), CPU), BUILT_FROM)[1]
        later = getattr(fx.build(model(), CPU), BUILT_FROM)[1]
    assert all("no memory today" in str(each.fallback_reason) for each in failed.entries)
    assert [each.fallback_reason for each in later.entries] == [None] * len(later.entries)


@pytest.mark.parametrize("suffix", [".kernel", ".schedule"])
def test_either_half_alone_is_enough_to_be_right(
    tmp_path: Path, full: Path, counts: list[tuple[int, int]], suffix: str
) -> None:
    shutil.copytree(full, tmp_path / "kernels")
    lost = list((tmp_path / "kernels").glob(f"*{suffix}"))
    for path in lost:
        path.unlink()
    with fx.kernel_cache(tmp_path / "kernels"):
        library = fx.build(model(), CPU)
    assert counts == [(0, len(lost)) if suffix == ".kernel" else (len(lost), 0)]
    np.testing.assert_array_equal(output(library), _wanted())
    for path in full.iterdir():
        assert (tmp_path / "kernels" / path.name).read_bytes() == path.read_bytes()


def test_what_is_exported_stands_alone(
    tmp_path: Path, full: Path, counts: list[tuple[int, int]]
) -> None:
    shutil.copytree(full, tmp_path / "kernels")
    with fx.kernel_cache(tmp_path / "kernels"):
        library = fx.build(model(), CPU)
    ((taken, made),) = counts
    assert (taken > 0, made) == (True, 0)
    library.export_library(str(tmp_path / "model.so"))
    for path in (tmp_path / "kernels").iterdir():
        path.unlink()
    loaded = tvm.runtime.load_module(str(tmp_path / "model.so"))
    np.testing.assert_array_equal(output(loaded), _wanted())


def test_code_for_another_machine_is_kept_and_not_loaded(
    tmp_path: Path, counts: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "load_kernels", lambda objects: pytest.fail("loaded"))
    with fx.kernel_cache(tmp_path / "kernels"):
        fx.build(model(), ARM)
        fx.build(model(), ARM)
    (_, made), later = counts
    assert later == (made, 0)


def test_a_damaged_folder_costs_time_and_no_number(
    tmp_path: Path, full: Path, counts: list[tuple[int, int]]
) -> None:
    shutil.copytree(full, tmp_path / "kernels")
    with fx.kernel_cache(tmp_path / "kernels"):
        for number, path in enumerate(sorted((tmp_path / "kernels").iterdir())):
            held = path.read_bytes()
            path.write_bytes((b"", held[:-9], held[::-1])[number % 3])
        library = fx.build(model(), CPU)
    assert counts == [(0, len(list(full.glob("*.kernel"))))]
    np.testing.assert_array_equal(output(library), _wanted())


def test_what_cannot_be_loaded_is_compiled_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "load_kernels", lambda objects: "no linker today")
    with fx.kernel_cache(tmp_path / "kernels"), caplog.at_level(logging.WARNING):
        library = fx.build(model(), CPU)
    assert "no linker today" in caplog.text
    assert library.get_lib().imported_modules == []
    np.testing.assert_array_equal(output(library), _wanted())


def test_a_kernel_that_needs_its_module_stays_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(module, "CONTEXT_OF_MODULE", b"ELF")
    with fx.kernel_cache(tmp_path / "kernels"):
        library = fx.build(model(), CPU)
    assert counts == [(0, 0)]
    np.testing.assert_array_equal(output(library), _wanted())


def test_what_is_known_of_kernels_is_the_same(full: Path, counts: list[tuple[int, int]]) -> None:
    plain = getattr(fx.build(model(), CPU), BUILT_FROM)[1]
    with fx.kernel_cache(full):
        kept = getattr(fx.build(model(), CPU), BUILT_FROM)[1]
    ((taken, made),) = counts
    assert (taken > 0, made) == (True, 0)
    assert kept.workspaces == plain.workspaces
    assert kept.in_place == plain.in_place
    assert set(kept.kernels) == set(plain.kernels)
    lowered = {name: each() if callable(each) else each for name, each in kept.kernels.items()}
    assert workspaces_of(tvm.IRModule(lowered)) == workspaces_of(tvm.IRModule(plain.kernels))


def test_a_kernel_still_refuses_what_does_not_fit(full: Path) -> None:
    with fx.kernel_cache(full):
        library = fx.build(model(), CPU)
    graph_executor.GraphModule(library["default"](tvm.cpu()))
    name = next(
        line.split("@")[1].split("(")[0]
        for line in library.get_lib().get_source().splitlines()
        if line.startswith("define") and "fused" in line
    )
    with pytest.raises(tvm.TVMError, match="refused its arguments"):
        library.get_lib()[name](tvm.nd.empty((1,)))


def test_passes_of_a_user_and_instruments_keep_nothing(tmp_path: Path) -> None:
    @tvm.tir.transform.prim_func_pass(opt_level=0, name="test.Nothing")
    def nothing(func: Any, mod: Any, ctx: Any) -> Any:
        return func

    with fx.kernel_cache(tmp_path / "kernels"):
        assert kept_kernels(CPU, "flush") is not None
        assert kept_kernels(tvm.target.Target("opencl"), "flush") is None
        with tvm.transform.PassContext(config={"tir.add_lower_pass": [(3, nothing)]}):
            assert kept_kernels(CPU, "flush") is None
        with tvm.transform.PassContext(instruments=[tvm.ir.instrument.PassTimingInstrument()]):
            assert kept_kernels(CPU, "flush") is None
    assert kept_kernels(CPU, "flush") is None


def test_the_folder_stays_in_its_bounds(tmp_path: Path) -> None:
    with fx.kernel_cache(tmp_path / "kernels", limit_bytes=1):
        library = fx.build(model(), CPU)
    assert KernelFolder(tmp_path / "kernels").entries() == []
    np.testing.assert_array_equal(output(library), _wanted())


def test_a_full_disk_is_said_once_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(KernelFolder, "write", lambda *arguments: "no space left")
    with fx.kernel_cache(tmp_path / "kernels"), caplog.at_level(logging.WARNING):
        library = fx.build(model(), CPU)
    assert caplog.text.count("not kept: no space left") == 1
    np.testing.assert_array_equal(output(library), _wanted())
