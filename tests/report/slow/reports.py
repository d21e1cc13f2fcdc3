"""A report of a tiny model, without a clock."""

from __future__ import annotations

import tvm_fusionx as fx
from tests.tiny_models import TARGET, perceptron
from tvm_fusionx.build.fused_build import FusedBuild, build_fused, kernel_notes
from tvm_fusionx.measuring.machine_peak import MachinePeak
from tvm_fusionx.report.profile.profile import KernelTime, ProfileReport

PEAK = MachinePeak(gflops_per_second=100.0, gbytes_per_second=10.0, threads=2)


def tiny_build() -> FusedBuild:
    """Return a build of the perceptron: a block of two products, and a softmax."""
    mod, params = fx.from_onnx(perceptron())
    return build_fused(mod, TARGET, params=params)


def tiny_profile(build: FusedBuild) -> ProfileReport:
    """Return a profile in which each kernel takes a millisecond, the first two."""
    kernels = [
        KernelTime(
            note.name,
            note.operators,
            note.template,
            seconds=1e-3 * (1 + (not place)),
            share=0.5,
            gflops_per_second=None,
            gbytes_per_second=0.0,
            work=note.work,
        )
        for place, note in enumerate(kernel_notes(build))
    ]
    return ProfileReport(tuple(kernels), 3e-3, PEAK)
