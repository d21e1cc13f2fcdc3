from __future__ import annotations

import numpy as np
import pytest

import tvm_fusionx as fx
from tests.tiny_models import TARGET, perceptron
from tvm_fusionx.errors import TargetError
from tvm_fusionx.fused_build import build_fused, kernel_notes, notes_of
from tvm_fusionx.inputs import inputs_of, random_inputs
from tvm_fusionx.kernels import KernelGraph
from tvm_fusionx.report.plain_tvm import build_plain, run_once
from tvm_fusionx.schedules import resolve_target


@pytest.mark.slow
def test_it_builds_what_the_public_build_builds() -> None:
    mod, params = fx.from_onnx(perceptron())
    ours, public = build_fused(mod, TARGET, params).library, fx.build(mod, TARGET, params)
    assert ours.get_graph_json() == public.get_graph_json()
    inputs = random_inputs(inputs_of(mod, params))
    assert np.array_equal(run_once(ours, inputs)[0], run_once(public, inputs)[0])


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


def test_what_the_public_build_returns_has_the_same_notes() -> None:
    mod, params = fx.from_onnx(perceptron())
    build = build_fused(mod, TARGET, params)
    assert notes_of(fx.build(mod, TARGET, params)) == kernel_notes(build)
    assert notes_of(build_plain(mod, resolve_target(TARGET), params)) == ()


def test_an_unknown_target_is_a_typed_error() -> None:
    mod, _ = fx.from_onnx(perceptron())
    with pytest.raises(TargetError, match="toaster"):
        build_fused(mod, "toaster")
