"""Tuning OpenCL kernels on PoCL: the same session, other templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuning.small_tasks import small_model
from tvm_fusionx.devices import find_device
from tvm_fusionx.devices.opencl_plugin import why_no_opencl
from tvm_fusionx.fused_build import build_fused
from tvm_fusionx.records import read_records
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
