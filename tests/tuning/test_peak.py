from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuning.small_tasks import LOCAL
from tvm_fusionx.devices import Device
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
