"""Tuning OpenCL kernels on PoCL: the same session, other templates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tvm import relay

from tests.relay_modules import const, module, var
from tests.tuning.small_tasks import small_model
from tvm_fusionx.build.fused_build import build_fused
from tvm_fusionx.devices import find_device
from tvm_fusionx.devices.opencl_plugin import why_no_opencl
from tvm_fusionx.records import read_records
from tvm_fusionx.schedules.gpu.textures import WEIGHT_SCOPE
from tvm_fusionx.tuning.bench import Bench
from tvm_fusionx.tuning.build_candidates import CandidateBuilder
from tvm_fusionx.tuning.comparison import compare_kernels
from tvm_fusionx.tuning.task import collect_tasks
from tvm_fusionx.tuning.tune import tune


@pytest.mark.slow
def test_opencl_kernels_are_tuned(tmp_path: Path) -> None:
    problem = why_no_opencl()
    if problem is not None:
        pytest.skip(problem)
    options = {"trials": 4, "batch": 2, "rounds": 1, "finalists": 1, "workers": 0}
    report = tune(small_model(), "pocl", records=tmp_path, **options)
    assert report.trials == 4
    assert report.target.startswith("opencl")
    assert {result.task.template for result in report.tasks} >= {"gpu_tile"}
    target = find_device("pocl").tvm_target()
    build = build_fused(small_model(), target, records=tmp_path)
    known = {record.hash for record in read_records(tmp_path)}
    assert {entry.key for entry in build.log.entries} == known


@pytest.mark.slow
def test_weights_are_put_where_a_candidate_takes_them() -> None:
    problem = why_no_opencl()
    if problem is not None:
        pytest.skip(problem)
    device = replace(find_device("pocl"), name="textures", target="opencl -device=adreno")
    x = relay.nn.dense(var("x", 1024, 32), const(64, 32))
    build = build_fused(module(x), device.tvm_target())
    (task,) = [each for each in collect_tasks(build, device.tvm_target()) if each.is_tunable]
    assert task.space.default["texture"] == 1
    with TemporaryDirectory() as folder, Bench(device) as bench:
        choices = [{**task.space.default, "texture": texture} for texture in (1, 0)]
        image, buffer = CandidateBuilder(device, folder, workers=0).build(task, choices)
        assert image.images == {1: WEIGHT_SCOPE}
        assert buffer.images == {}
        first, outputs = bench.run(task, image.path, None, image.images)
        second, _ = bench.run(task, buffer.path, outputs, buffer.images)
        assert (first.failure, second.failure) == (None, None)
        paths, images = [image.path, buffer.path], [image.images, buffer.images]
        assert len(compare_kernels(bench, task, paths, 2, images)) == 2
