"""What earlier sessions found for a device: it takes part in the comparisons of a later one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import tvm

from tvm_fusionx.records import Record, differing_records, merge_records, read_records
from tvm_fusionx.schedules import target_key
from tvm_fusionx.tuning.task import TRACE, Choice, Task


@dataclass(frozen=True)
class Earlier:
    """The records that builds for one device use, from before this session."""

    records: Mapping[str, Record] = field(default_factory=dict)
    """By structural hash of the block."""

    @classmethod
    def read(cls, root: Path, target: tvm.target.Target, device: str) -> Earlier:
        """Return the records of `target` and `device` in the folder `root`, if there are any.

        Raises
        ------
        RecordError
            A line is damaged.
        """
        found = merge_records([read_records(root)]) if root.is_dir() else []
        ours = (target_key(target), device)
        return cls({each.hash: each for each in found if (each.target, each.device) == ours})

    def choice(self, task: Task) -> Choice | None:
        """Return what was found for a block; None where it is the default or fits no longer."""
        record = self.records.get(task.key)
        if record is None:
            return None
        if record.trace:
            return {TRACE: record.trace}
        choice = task.space.default | dict(record.knobs)
        fits = record.template == task.template and task.space.index(choice) is not None
        return choice if fits and choice != task.space.default else None

    def joined_by(self, records: Iterable[Record], uncompared: Collection[str]) -> list[Record]:
        """Return the records of this session that are to be kept, with the trials of both.

        Parameters
        ----------
        uncompared
            Blocks whose earlier choice could not be compared with the default: their records stay
            as they are, unless kernels are made differently since.
        """
        kept = []
        for record in records:
            before = self.records.get(record.hash)
            if before is None:
                kept.append(record)
                continue
            is_of_these = before.versions == record.versions
            if is_of_these and record.hash in uncompared:
                continue
            # Trials of other kernels say nothing, unless what they chose was compared again.
            counts = is_of_these or not differing_records([before], [record])
            kept.append(replace(record, trials=record.trials + before.trials * counts))
        return kept
