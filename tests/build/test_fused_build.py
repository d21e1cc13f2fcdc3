from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relay

import tvm_fusionx as fx
from tests.relay_modules import const, module, var
from tests.tiny_models import TARGET, perceptron
from tests.tuning.small_tasks import RESOLVED, small_model
from tvm_fusionx.build import fused_build
from tvm_fusionx.build.fused_build import build_fused, kernel_notes, notes_of
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.ecg import from_relay
from tvm_fusionx.errors import TargetError
from tvm_fusionx.inputs import inputs_of, random_inputs
from tvm_fusionx.records import Record, write_records
from tvm_fusionx.records.device import this_device
from tvm_fusionx.report.bench.plain_tvm import build_plain, run_once
from tvm_fusionx.schedules import resolve_target, target_key
from tvm_fusionx.tuning.task import collect_tasks


@pytest.mark.slow
def test_it_builds_what_the_public_build_builds() -> None:
    mod, params = fx.from_onnx(perceptron())
    ours, public = build_fused(mod, TARGET, params).library, fx.build(mod, TARGET, params)
    assert ours.get_graph_json() == public.get_graph_json()
    inputs = random_inputs(inputs_of(mod, params))
    assert np.array_equal(run_once(ours, inputs)[0], run_once(public, inputs)[0])


def test_what_is_being_built_is_told_out_of_how_much() -> None:
    told: list[str] = []
    mod, params = fx.from_onnx(perceptron())
    build = build_fused(mod, TARGET, params, on_stage=told.append, fuse=False)
    kernels = len(KernelGraph.from_json(build.library.get_graph_json()).kernels)
    steps = [f"scheduling kernel {step} of {kernels}" for step in range(1, kernels + 1)]
    different = len({entry.key for entry in build.log.entries})
    steps += [f"lowering kernel {step} of {different}" for step in range(1, different + 1)]
    assert told == ["planning", *steps, f"making code of {kernels} kernels"]


def test_unfused_every_operator_is_a_kernel_of_the_same_templates() -> None:
    build = build_fused(*fx.from_onnx(perceptron())[:1], TARGET, fuse=False)
    kernels = KernelGraph.from_json(build.library.get_graph_json()).kernels
    assert len(kernels) == 5
    assert len(build.log.entries) >= 5


def test_every_kernel_has_a_note_with_its_template_and_operations() -> None:
    build = build_fused(fx.from_onnx(perceptron())[0], TARGET, fuse=False)
    notes = kernel_notes(build)
    assert [note.operators for note in notes] == [("fc1",), ("fc1",), ("act",), ("fc2",), ("prob",)]
    assert all(note.template for note in notes)
    assert notes[0].flops == 2 * 4 * 8 * 16


def test_operations_of_equal_blocks_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    layers: Any = var("x", 8, 16)
    for _ in range(3):
        layers = relay.nn.softmax(relay.nn.dense(layers, const(16, 16)))
    build = build_fused(module(layers), TARGET, fuse=False)
    counted = []

    def calls(function: relay.Function) -> Any:
        counted.append(function)
        return from_relay(function)

    monkeypatch.setattr(fused_build, "from_relay", calls)
    notes = kernel_notes(build)
    assert [note.flops for note in notes] == [notes[0].flops, notes[1].flops] * 3
    assert notes[0].flops == 2 * 8 * 16 * 16
    assert len(counted) == 2


def test_minimal_filtering_is_noted_as_what_it_executes_beside_the_direct_convolution() -> None:
    image = var("image", 1, 32, 32, 32)
    body = relay.nn.conv2d(image, const(32, 32, 3, 3), padding=(1, 1))
    notes = notes_of(fx.build(module(body), TARGET))
    note = next(note for note in notes if note.template == "winograd")
    assert note.flops == 2 * 32 * 32 * 32 * 32 * 9
    assert note.work is not None
    # Tiles of 2x2 or 4x4: 16 products for 36, or 36 for 144.
    assert note.work.products in (note.flops * 16 // 36, note.flops * 36 // 144)
    assert note.work.products < note.work.flops < note.flops


def test_of_a_table_the_rows_that_are_read_are_noted() -> None:
    ids, table = var("ids", 8, dtype="int32"), const(1000, 16)
    (note,) = notes_of(fx.build(module(relay.take(table, ids, axis=0)), TARGET))
    assert note.work is not None
    assert note.work.read_bytes == 4 * (8 + 8 * 16)
    assert note.work.written_bytes == 4 * 8 * 16


def test_what_the_public_build_returns_has_the_same_notes() -> None:
    mod, params = fx.from_onnx(perceptron())
    build = build_fused(mod, TARGET, params)
    assert notes_of(fx.build(mod, TARGET, params)) == kernel_notes(build)
    assert notes_of(build_plain(mod, resolve_target(TARGET), params)) == ()


def test_records_of_the_device_that_runs_the_model_count(tmp_path: Path) -> None:
    """This machine's by default, however new those of another are."""
    mod = small_model()
    task = collect_tasks(build_fused(mod, RESOLVED), RESOLVED)[0]
    here = Record(
        target_key(RESOLVED),
        task.key,
        task.template,
        task.space.choice(0),
        device=this_device(RESOLVED) or "",
    )
    last = task.space.choice(len(task.space) - 1)
    other = replace(here, knobs=last, device="some other machine", measured_at=2.0)
    write_records(tmp_path, [here, other])
    code = {}
    for device, record in ((None, here), (other.device, other)):
        build = build_fused(mod, RESOLVED, records=tmp_path, device=device)
        (entry, *_) = (each for each in build.log.entries if each.key == task.key)
        assert entry.knobs == record.knobs
        code[device] = build.library.get_lib().get_source("asm")
        public = fx.build(mod, RESOLVED, records=tmp_path, device=device)
        assert public.get_lib().get_source("asm") == code[device]
    assert code[None] != code[other.device]


def test_an_unknown_target_is_a_typed_error() -> None:
    mod, _ = fx.from_onnx(perceptron())
    with pytest.raises(TargetError, match="toaster"):
        build_fused(mod, "toaster")


def test_denormals_are_kept_where_that_is_asked_for() -> None:
    mod = module(var("x", 4) * relay.const(np.float32(0.5)))
    inputs = {"x": np.full(4, 1e-38, "float32")}
    for denormals, expected in (("flush", 0.0), ("keep", 5e-39)):
        build = build_fused(mod, TARGET, denormals=denormals)  # type: ignore[arg-type]
        np.testing.assert_array_equal(run_once(build.library, inputs)[0], np.float32(expected))
