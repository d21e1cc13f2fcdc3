from __future__ import annotations

import pytest

from tvm_fusionx.cli.gpu_tables import NOTE, print_estimates
from tvm_fusionx.processors.gpu_rates import GpuRates
from tvm_fusionx.report.profile.gpu_estimate import CountedKernel, GpuKernels
from tvm_fusionx.schedules.gpu.work import GpuWork

GPU = GpuRates("example", alus=100, mhz=500, memory_gb_a_second=20, half_rate=2)
WORK = GpuWork(
    groups=100,
    group_items=10,
    multiply_adds=50_000_000,
    half_multiply_adds=0,
    operations=0,
    half_operations=0,
    loads=0,
    load_bytes=0,
    image_loads=12_500_000,
    image_load_bytes=0,
    stores=0,
    store_bytes=0,
    group_accesses=0,
    barriers=0,
    registers=7,
    argument_bytes=2_000_000,
)


def test_what_is_told_says_that_it_is_an_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    kernels = GpuKernels(
        "opencl", (CountedKernel("tvmgen_default_dense_kernel", "gpu_tile", 2, WORK),)
    )
    print_estimates({"buffers": [kernels.on(GPU)], "images": [kernels.on(GPU)]})
    told = capsys.readouterr().out
    # Twice 50 million multiply-adds at 50,000 a microsecond; twice 2 MB.
    assert "buffers 2 4.0 2.00" in " ".join(told.split())
    assert "1000.0 compute 2 1000 50.0 1.00 7 gpu_tile dense" in " ".join(told.split())
    assert "Least on example: buffers" in told
    assert NOTE in " ".join(told.split())
