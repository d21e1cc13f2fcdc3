from __future__ import annotations

from pathlib import Path

import pytest

from tests.tuning.small_tasks import LOCAL
from tvm_fusionx.devices import Device
from tvm_fusionx.schedules.block_work import Work
from tvm_fusionx.tuning.bench import Bench, Timing
from tvm_fusionx.tuning.peak import Peak, measure_peak

pytestmark = pytest.mark.slow


def test_a_cpu_has_rates(tmp_path: Path) -> None:
    with Bench(LOCAL, timing=Timing(milliseconds=1)) as bench:
        found = measure_peak(bench, tmp_path)
    assert found is not None
    assert found.flops_per_second > 1e8
    assert found.bytes_per_second > 1e7
    assert found.divisions_per_second > 1e7


def test_other_kinds_have_none(tmp_path: Path) -> None:
    device = Device("gpu", "opencl", host="llvm", tracker="127.0.0.1:1", key="none")
    assert measure_peak(Bench(device), tmp_path) is None


@pytest.mark.parametrize(
    ("work", "seconds"),
    [
        (Work(flops=9999, instructions=500, divisions=10, read_bytes=5, written_bytes=5), 10.0),
        (Work(instructions=50, divisions=60, read_bytes=10), 3.0),
        (Work(instructions=50, divisions=10, read_bytes=600, written_bytes=400), 100.0),
    ],
)
def test_the_limit_is_the_slowest_of_arithmetic_divisions_and_memory(
    work: Work, seconds: float
) -> None:
    assert Peak(100.0, 10.0, 20.0).least_seconds(work) == pytest.approx(seconds)


def test_a_kernel_beyond_the_peak_raises_it() -> None:
    work = Work(instructions=50, divisions=60, read_bytes=600, written_bytes=400)
    peak = Peak(100.0, 10.0, 20.0)
    assert peak.raised_by(work, 1.0) == peak
    assert peak.raised_by(work, 0.5) == Peak(200.0, 10.0, 20.0)


def test_without_a_rate_of_divisions_they_take_no_time() -> None:
    assert Peak(100.0, 10.0).least_seconds(Work(instructions=50, divisions=10**9)) == 1.0
