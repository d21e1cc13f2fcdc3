"""Files of tuning records: reading, choosing, writing, merging, comparing, pruning."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import tvm

from tvm_fusionx.errors import RecordError
from tvm_fusionx.output_file import make_folder, new_file
from tvm_fusionx.records.device import this_device
from tvm_fusionx.records.record import Record, parse_record
from tvm_fusionx.schedules import target_key
from tvm_fusionx.schedules.traced import why_not_readable

logger = logging.getLogger(__name__)

RECORD_FILES = "*.jsonl"
# The file of a folder that new records go to.
OWN_FILE = "records.jsonl"
SECONDS_A_DAY = 86400.0


def record_files(path: str | Path) -> list[Path]:
    """Return the files at `path`: itself, or those of the folder."""
    root = Path(path)
    return sorted(root.glob(RECORD_FILES)) if root.is_dir() else [root]


def own_file(path: str | Path) -> Path:
    """Return the file that records of `path`, a file or a folder, are written to."""
    root = Path(path)
    return root if root.suffix == ".jsonl" else root / OWN_FILE


def read_records(path: str | Path) -> list[Record]:
    """Return every record under `path`, in the order of the lines.

    Parameters
    ----------
    path
        A file of JSON lines, or a folder of such files (``*.jsonl``).

    Raises
    ------
    RecordError
        Nothing can be read there, or a line is damaged.
    """
    return [record for file in record_files(path) for record in _records_of(file)]


def _records_of(file: Path) -> list[Record]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(
            f"tuning records {file}",
            expected="a readable JSON-lines file or a folder of *.jsonl files",
            found=f"{type(error).__name__}: {error}",
            next_step="Check the path given as records.",
        ) from error
    return [
        parse_record(file, number, line)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]


def load_records(
    path: str | Path | None, target: tvm.target.Target, device: str | None = None
) -> dict[str, Record]:
    """Return the records for `target` under `path`, by structural hash of their block.

    Of several records of one block, one of `device` is chosen before others, then the newest, then
    the last. Where the device is not known and a block has records of several, a warning says so.

    Parameters
    ----------
    device
        Fingerprint of the device that will run the model; this machine's by default where it is of
        the target's kind.

    Raises
    ------
    RecordError
        When nothing can be read at `path`, a line is damaged, every record is of another target, or
        one holds a schedule of another TVM.
    """
    if path is None:
        return {}
    key = target_key(target)
    everything = read_records(path)
    ours = [record for record in everything if record.target == key]
    if everything and not ours:
        raise RecordError(
            f"tuning records {path}",
            expected=f"records for target {key!r}",
            found=f"only records for {sorted({record.target for record in everything})}",
            next_step="Tune for this target, or build for the target the records are for.",
        )
    for record in ours:
        problem = why_not_readable(record.trace) if record.trace else None
        if problem is not None:
            raise RecordError(
                f"tuning records {path}, block {record.name or record.hash}",
                expected="a schedule that this TVM can apply",
                found=problem,
                next_step="Tune again with this TVM, or drop it: `fusionx records prune`.",
            )
    wanted = device if device is not None else this_device(target)
    found: dict[str, Record] = {}
    devices: dict[str, set[str]] = {}
    for record in sorted(ours, key=lambda each: (each.device == wanted, each.measured_at)):
        found[record.hash] = record
        devices.setdefault(record.hash, set()).add(record.device)
    if wanted is None and any(len(each) > 1 for each in devices.values()):
        logger.warning(
            "tuning records %s are of several devices, and the newest count: give device= or "
            "--device",
            path,
        )
    return found


def write_records(path: str | Path, records: Iterable[Record]) -> Path:
    """Write `records`, and no others, to `path`, a file or a folder; all of them or nothing.

    Raises
    ------
    OutputFileError
        The file cannot be written.
    """
    file = own_file(path)
    make_folder(file.parent)
    with new_file(file) as scratch:
        text = "".join(record.line() + "\n" for record in records)
        scratch.write_text(text, encoding="utf-8")
    return file


def add_records(path: str | Path, records: Sequence[Record]) -> Path:
    """Add `records` to those at `path`; one of the same target, device and block is replaced.

    Raises
    ------
    RecordError
        What is there already is damaged.
    OutputFileError
        The file cannot be written.
    """
    file = own_file(path)
    before = _records_of(file) if file.is_file() else []
    return write_records(file, merge_records([before, records]))


def merge_records(groups: Iterable[Iterable[Record]]) -> list[Record]:
    """Return all records; of those of one target, device and block, the newest, then the last."""
    kept: dict[tuple[str, str, str], Record] = {}
    for record in (record for group in groups for record in group):
        known = kept.get(record.key)
        if known is None or record.measured_at >= known.measured_at:
            kept[record.key] = record
    return list(kept.values())


def differing_records(
    left: Iterable[Record], right: Iterable[Record]
) -> list[tuple[Record | None, Record | None]]:
    """Return the pairs whose choices differ, and None beside records that one side has alone."""
    ours = {record.key: record for record in left}
    theirs = {record.key: record for record in right}
    return [
        (ours.get(key), theirs.get(key))
        for key in dict.fromkeys([*ours, *theirs])
        if key not in ours or key not in theirs or _choice(ours[key]) != _choice(theirs[key])
    ]


def _choice(record: Record) -> tuple[str, dict[str, int], str]:
    return record.template, dict(record.knobs), record.trace


def prune_records(
    records: Iterable[Record],
    *,
    older_than_days: float | None = None,
    keep_versions: str | None = None,
    keep_target: str | None = None,
) -> list[Record]:
    """Return the records that are not older, not of other versions and not of other targets.

    Parameters
    ----------
    older_than_days, keep_versions, keep_target
        Each bound counts only where it is given.
    """
    limit = None if older_than_days is None else time.time() - older_than_days * SECONDS_A_DAY
    return [
        record
        for record in records
        if (limit is None or record.measured_at >= limit)
        and (keep_versions is None or record.versions == keep_versions)
        and (keep_target is None or record.target == keep_target)
    ]
