"""What tuning did: each block's choice, the whole model's gain, and what went wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm_fusionx.records import Record
from tvm_fusionx.report.profile.profile import format_seconds
from tvm_fusionx.schedules.traced import TRACED
from tvm_fusionx.tuning.allocation import Progress, least_seconds
from tvm_fusionx.tuning.comparison import Comparison
from tvm_fusionx.tuning.peak import Peak
from tvm_fusionx.tuning.task import TRACE, Task

GIGA = 1e9
NAME_WIDTH = 48


@dataclass(frozen=True)
class TaskResult:
    """What came of one block."""

    task: Task
    default_seconds: float
    """Median time with the default values; infinity where they failed."""

    trials: int
    """Candidates measured."""

    choice: Mapping[str, Any]
    """The values that are kept: the default's unless others were faster in turns with it."""

    comparison: Comparison | None = None
    """The best candidate in turns with the default; None where none came near it."""

    reason: str = ""
    """Why the default stays, where it does; or where the choice comes from, if not from here."""

    @property
    def is_better(self) -> bool:
        """Tell whether a candidate won."""
        return self.comparison is not None and self.comparison.is_better

    @property
    def seconds(self) -> float:
        """Return the median time of what is kept."""
        if self.is_better and self.comparison is not None:
            return self.default_seconds / self.comparison.ratio
        return self.default_seconds


@dataclass(frozen=True)
class TuningReport:
    """What a tuning session did.

    Attributes
    ----------
    target, device
        Key of the target and fingerprint of the device.
    tasks
        One result for each distinct block.
    end_to_end
        The whole model with all winners, in turns with the untuned one; None where no block won.
    is_accepted
        Whether the winners became records: only when the whole model is faster with them.
    reason
        Why not, where they did not.
    failures
        How many trials failed, by kind.
    trials, seconds
        What it took, over all parts of the session.
    records
        The file of records; None for a dry run.
    peak
        The device's best rates; None where they were not measured.
    """

    target: str
    device: str
    tasks: tuple[TaskResult, ...]
    end_to_end: Comparison | None = None
    is_accepted: bool = False
    reason: str = ""
    failures: Mapping[str, int] = field(default_factory=dict)
    trials: int = 0
    seconds: float = 0.0
    records: Path | None = None
    peak: Peak | None = None

    @property
    def total_seconds(self) -> float:
        """Return the sum of all blocks' times with the default values."""
        return sum(
            result.task.count * result.default_seconds
            for result in self.tasks
            if math.isfinite(result.default_seconds)
        )

    def share(self, result: TaskResult) -> float:
        """Return the part of the blocks' time that a block takes, all of its kind together."""
        total = self.total_seconds
        if not total or not math.isfinite(result.default_seconds):
            return 0.0
        return result.task.count * result.default_seconds / total

    def of_peak(self, result: TaskResult) -> float | None:
        """Return the part of the device's peak arithmetic that a block reaches; None if unknown."""
        if self.peak is None or not result.task.flops or not math.isfinite(result.seconds):
            return None
        return result.task.flops / result.seconds / self.peak.flops_per_second

    def of_limit(self, result: TaskResult) -> float | None:
        """Return the part of the device's limit that a block reaches.

        The limit counts all its arithmetic, of functions that of their polynomials, its divisions
        and its bytes; the peak multiply-adds alone.
        """
        if self.peak is None or not math.isfinite(result.seconds):
            return None
        return self.peak.least_seconds(result.task.work) / result.seconds

    @property
    def all_of_limit(self) -> float | None:
        """The part of the device's limit that all blocks together reach, none more than whole."""
        measured = [result for result in self.tasks if math.isfinite(result.seconds)]
        spent = sum(result.task.count * result.seconds for result in measured)
        if self.peak is None or not spent:
            return None
        parts = (min(1.0, self.of_limit(result) or 0.0) for result in measured)
        least = sum(
            part * result.task.count * result.seconds
            for part, result in zip(parts, measured, strict=True)
        )
        return least / spent

    def expected_gains(self) -> list[tuple[TaskResult, float]]:
        """Return the part of the model's time that tuning each block may save, largest first."""
        rows = []
        for result in self.tasks:
            progress = Progress(result.task, result.seconds, least_seconds(result.task, self.peak))
            saved = progress.expected_seconds if result.task.is_tunable else 0.0
            rows.append((result, saved / self.total_seconds if self.total_seconds else 0.0))
        return sorted(rows, key=lambda row: -row[1])

    def text(self, most: int | None = None) -> str:
        """Return the report for a terminal, the blocks that take longest first.

        Parameters
        ----------
        most
            Blocks to show; all by default.
        """
        ordered = sorted(self.tasks, key=self.share, reverse=True)
        lines = [f"{self.device}, {self.target}"]
        if self.peak is not None:
            lines.append(
                f"peak {self.peak.flops_per_second / GIGA:.0f} GFLOP/s, "
                f"copying {self.peak.bytes_per_second / GIGA:.1f} GB/s"
            )
        lines.append(
            f"{'share':>6} {'time':>9} {'GFLOP/s':>8} {'peak':>5} {'limit':>5} {'trials':>6}  "
            "block, result"
        )
        lines += [self._line(result) for result in ordered[:most]]
        if most is not None and len(ordered) > most:
            lines.append(f"       and {len(ordered) - most} more blocks")
        if (together := self.all_of_limit) is not None:
            lines.append(f"all blocks together reach {together:.0%} of the limit")
        if self.failures:
            kinds = ", ".join(f"{count} {kind}" for kind, count in self.failures.items())
            lines.append(f"failed candidates: {kinds}")
        lines.append(self.verdict())
        return "\n".join(lines)

    def _line(self, result: TaskResult) -> str:
        name = result.task.names[0] if result.task.names else result.task.key
        name = name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 3] + "..."
        count = f" x{result.task.count}" if result.task.count > 1 else ""
        speed = "-"
        if math.isfinite(result.seconds):
            speed = f"{result.task.flops / result.seconds / GIGA:.1f}"
        took = format_seconds(result.seconds) if math.isfinite(result.seconds) else "failed"
        if result.is_better and result.comparison is not None:
            said = f"{result.comparison.ratio:.2f}x (spread {result.comparison.spread:.2f})"
            said += ", by TVM's own schedule" if TRACE in result.choice else ""
            said += f", {result.reason}" if result.reason else ""
        else:
            said = result.reason
        return (
            f"{self.share(result):>6.1%} {took:>9} {speed:>8} {_part(self.of_peak(result)):>5} "
            f"{_part(self.of_limit(result)):>5} {result.trials:>6}  "
            f"{name}{count} [{result.task.template}]: {said}"
        )

    def verdict(self) -> str:
        """Return the end in one line."""
        spent = f"{self.trials} trials, {self.seconds:.0f} s"
        if self.end_to_end is None:
            return f"{spent}: {self.reason}"
        ratio = f"{self.end_to_end.ratio:.3f}x end to end (spread {self.end_to_end.spread:.3f})"
        if self.is_accepted:
            return f"{spent}: {ratio}; records in {self.records}"
        return f"{spent}: {ratio}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Return the report as a dictionary that ``json.dumps`` takes; times in seconds."""
        return {
            "target": self.target,
            "device": self.device,
            "trials": self.trials,
            "seconds": self.seconds,
            "failures": dict(self.failures),
            "is_accepted": self.is_accepted,
            "reason": self.reason,
            "of_limit": self.all_of_limit,
            "end_to_end": None if self.end_to_end is None else _compared(self.end_to_end),
            "records": None if self.records is None else str(self.records),
            "peak_flops_per_second": None if self.peak is None else self.peak.flops_per_second,
            "blocks": [
                {
                    "hash": result.task.key,
                    "names": list(result.task.names),
                    "template": result.task.template,
                    "choices": len(result.task.space),
                    "share": self.share(result),
                    "default_s": _finite(result.default_seconds),
                    "seconds": _finite(result.seconds),
                    "of_peak": self.of_peak(result),
                    "of_limit": self.of_limit(result),
                    "trials": result.trials,
                    "knobs": dict(result.choice),
                    "is_better": result.is_better,
                    "reason": result.reason,
                }
                for result in self.tasks
            ],
        }


def _compared(comparison: Comparison) -> dict[str, Any]:
    return {
        "ratio": comparison.ratio,
        "spread": comparison.spread,
        "verdict": comparison.verdict,
        "rounds": len(comparison.ratios),
    }


def _part(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def record_of(
    result: TaskResult, *, target: str, device: str, tuner: str, at: float, versions: str
) -> Record:
    """Return the record of a block: of its winner, or of its default's time."""
    task = result.task
    trace = str(result.choice.get(TRACE, ""))
    return Record(
        target=target,
        hash=task.key,
        template=TRACED if trace else task.template,
        knobs={} if trace else dict(result.choice),
        trace=trace,
        device=device,
        name=task.names[0] if task.names else "",
        shapes=task.shapes,
        seconds=result.seconds if math.isfinite(result.seconds) else math.inf,
        default_seconds=(
            result.default_seconds if math.isfinite(result.default_seconds) else math.inf
        ),
        flops=task.flops,
        trials=result.trials,
        tuner=tuner,
        measured_at=at,
        versions=versions,
    )
