"""What a kernel would take at least on this machine, and what it takes beside that.

The limit is a roofline: a kernel's instructions at the measured peak, or its bytes at the measured
rate of memory, whichever takes longer, and one launch. Operands in the caches come faster than
from memory, so a kernel may be faster than its limit; one far above it has no such excuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm_fusionx.measuring.machine_peak import MachinePeak
from tvm_fusionx.schedules.block_work import Work

if TYPE_CHECKING:
    from tvm_fusionx.report.profile.profile import KernelTime, ProfileReport

# A kernel below this part of its limit is slow.
SLOW = 0.3

# Starting a kernel and joining its threads: `wake_up_us` of processors.json, of most cores.
LAUNCH_SECONDS = 2e-6

GIGA = 1e9

# Of the operations that a peak counts, those of one instruction: a multiply-add.
OPERATIONS_AN_INSTRUCTION = 2


@dataclass(frozen=True)
class SlowKernel:
    """A kernel far from its limit.

    Attributes
    ----------
    kernel
        Its row of the profile.
    limit_seconds
        What it would take at least.
    lost_seconds
        What it takes longer.
    """

    kernel: KernelTime
    limit_seconds: float
    lost_seconds: float

    @property
    def part_of_limit(self) -> float:
        """Return the limit over the time, between 0 and 1."""
        return self.limit_seconds / self.kernel.seconds


def limit_seconds(work: Work, peak: MachinePeak) -> float:
    """Return the least time of some work on a machine, in seconds."""
    instructions = work.instructions + work.divisions
    rate = peak.gflops_per_second * GIGA / OPERATIONS_AN_INSTRUCTION
    moving = work.bytes / (peak.gbytes_per_second * GIGA)
    return max(instructions / rate, moving) + LAUNCH_SECONDS


def slow_kernels(report: ProfileReport, below: float = SLOW) -> Sequence[SlowKernel]:
    """Return the kernels under a part of their limit, the one that loses most first.

    None where the machine's peak was not measured; kernels whose work is unknown are left out.
    """
    if report.peak is None:
        return ()
    found = []
    for kernel in report.kernels:
        if kernel.work is None:
            continue
        limit = limit_seconds(kernel.work, report.peak)
        if limit < below * kernel.seconds:
            found.append(SlowKernel(kernel, limit, kernel.seconds - limit))
    return tuple(sorted(found, key=lambda slow: -slow.lost_seconds))
