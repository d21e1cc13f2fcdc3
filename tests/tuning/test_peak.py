from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.tuning.small_tasks import LOCAL, RESOLVED
from tvm_fusionx.devices import Device
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules.cpu import Cpu
from tvm_fusionx.tuning import peak
from tvm_fusionx.tuning.bench import Bench, Timing
from tvm_fusionx.tuning.peak import Peak, measure_peak

pytestmark = pytest.mark.slow


def test_a_cpu_has_rates(tmp_path: Path) -> None:
    with Bench(LOCAL, timing=Timing(milliseconds=1)) as bench:
        found = measure_peak(bench, tmp_path)
    assert found is not None
    assert found.flops_per_second > 1e8
    assert found.bytes_per_second > 1e7


def test_other_kinds_have_none(tmp_path: Path) -> None:
    device = Device("gpu", "opencl", host="llvm", tracker="127.0.0.1:1", key="none")
    assert measure_peak(Bench(device), tmp_path) is None


def test_the_limit_is_the_slower_of_arithmetic_and_memory() -> None:
    assert Peak(100.0, 10.0).least_seconds(1000.0, 10.0) == pytest.approx(10.0)
    assert Peak(100.0, 10.0).least_seconds(100.0, 1000.0) == pytest.approx(100.0)


def test_the_kernels_compute_what_they_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak, "COPIED_FLOATS", 64)
    cpu = Cpu(lanes=8, registers=16, cores=2)
    copying = compile_kernel(peak._copying(cpu), RESOLVED, "copying")
    source, result = (tvm.nd.array(np.arange(64, dtype="float32") + n) for n in range(2))
    copying["copying"](source, result)
    np.testing.assert_array_equal(source.numpy(), result.numpy())
    arithmetic = compile_kernel(peak._arithmetic(cpu), RESOLVED, "arithmetic")
    sums = tvm.nd.array(np.zeros(peak.SUMS * cpu.lanes * cpu.cores, "float32"))
    arithmetic["arithmetic"](sums)
    # x = x / 2 + 1 tends to 2.
    np.testing.assert_allclose(sums.numpy(), 2.0)
