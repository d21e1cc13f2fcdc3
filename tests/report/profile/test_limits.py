"""Limits of kernels, from their work and a machine's rates; kernels that are far from theirs."""

from __future__ import annotations

import pytest

from tvm_fusionx.measuring.machine_peak import MachinePeak
from tvm_fusionx.report.profile.limits import LAUNCH_SECONDS, limit_seconds, slow_kernels
from tvm_fusionx.report.profile.profile import KernelTime, ProfileReport
from tvm_fusionx.schedules.block_work import Work

PEAK = MachinePeak(gflops_per_second=100.0, gbytes_per_second=10.0, threads=2)
MILLION = 1_000_000


@pytest.mark.parametrize(
    ("work", "seconds"),
    [
        (Work(flops=2 * MILLION, instructions=MILLION), 20e-6),
        (Work(instructions=MILLION, divisions=MILLION), 40e-6),
        (Work(instructions=MILLION, read_bytes=MILLION, written_bytes=MILLION), 200e-6),
    ],
)
def test_the_longer_of_instructions_and_bytes_counts(work: Work, seconds: float) -> None:
    assert limit_seconds(work, PEAK) == pytest.approx(seconds + LAUNCH_SECONDS)


def _kernel(name: str, seconds: float, work: Work | None) -> KernelTime:
    return KernelTime(name, (), "rows", seconds, 0.5, None, 0.0, work=work)


def test_what_loses_most_comes_first_and_what_is_unknown_in_no_place() -> None:
    work = Work(read_bytes=MILLION)
    kernels = (
        _kernel("fast", 110e-6, work),
        _kernel("slow", 500e-6, work),
        _kernel("slowest", 900e-6, work),
        _kernel("unknown", 900e-6, None),
    )
    found = slow_kernels(ProfileReport(kernels, 1.0, PEAK))
    assert [slow.kernel.name for slow in found] == ["slowest", "slow"]
    assert found[0].lost_seconds == pytest.approx(900e-6 - 102e-6)
    assert found[0].part_of_limit == pytest.approx(102 / 900)
    assert slow_kernels(ProfileReport(kernels, 1.0)) == ()
