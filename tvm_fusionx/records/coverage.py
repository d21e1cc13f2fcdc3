"""How much of a model its tuning records cover, in one line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tvm_fusionx.records.record import Record


def coverage_text(blocks: Iterable[str | None], records: Mapping[str, Record]) -> str:
    """Return how many blocks have tuned records, and their share of the time.

    Where the records are of several devices, that is said too.

    Parameters
    ----------
    blocks
        The structural hash of each kernel of the model; None where it has none.
    records
        The records in use, by hash.
    """
    total, tuned, unknown = 0, 0, 0
    devices: set[str] = set()
    seconds = tuned_seconds = 0.0
    for block in blocks:
        total += 1
        record = records.get(block or "")
        devices |= set() if record is None else {record.device}
        if record is not None and record.is_tuned:
            tuned += 1
        if record is None or not math.isfinite(record.seconds):
            unknown += 1
            continue
        seconds += record.seconds
        tuned_seconds += record.seconds if record.is_tuned else 0.0
    text = f"{tuned} of {total} blocks tuned"
    if seconds:
        text += f", {tuned_seconds / seconds:.0%} of the time"
        text += f" ({unknown} blocks never timed)" if unknown else ""
    return f"{text}; records of {len(devices)} devices" if len(devices) > 1 else text
