"""A tuned choice for one block, and the line of a file that holds it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tvm_fusionx.errors import MALFORMED, RecordError

FORMAT_VERSION = 1
# Of records with a trace, which a reader of the first version would take for a template.
TRACE_VERSION = 2

# What a line cannot do without; the rest tells where the choice comes from.
RECORD_FIELDS = ("version", "target", "hash", "template", "knobs")

SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Record:
    """What tuning found for one block on one device.

    Blocks that were timed and not searched have records too, of their defaults with no trials: so
    that the records of a model tell the share of each block.
    """

    target: str
    """Key of the target; see ``tvm_fusionx.schedules.target_key``."""

    hash: str
    """Structural hash of the unscheduled PrimFunc: its computation, shapes and dtypes."""

    template: str
    """Name of the template."""

    knobs: Mapping[str, int]
    """Value of each knob."""

    device: str = ""
    """Fingerprint of the device it was measured on; empty where unknown."""

    name: str = ""
    """Name of the block in the model it was found in."""

    shapes: tuple[str, ...] = ()
    """Parameters of the block as ``float32[1, 64]``, the outputs last."""

    seconds: float = math.inf
    """Median time of one run; infinite where unknown."""

    default_seconds: float = math.inf
    """The same with the template's default values, measured in turns with it."""

    flops: float = 0.0
    """Floating-point operations of one run."""

    trials: int = 0
    """Candidates that were measured for it; none where the block was timed only."""

    tuner: str = ""
    """What searched."""

    measured_at: float = 0.0
    """Seconds since the epoch."""

    versions: str = ""
    """Versions the kernel's code depends on."""

    trace: str = ""
    """The schedule as ``tvm_fusionx.schedules.traced`` writes it, where TVM's own space was
    searched; the template is then "tvm", without knobs."""

    extra: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Fields that this version does not know, kept when the record is written again."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what two records of one choice share: target, device and block."""
        return self.target, self.device, self.hash

    @property
    def is_tuned(self) -> bool:
        """Tell whether candidates were measured, not only the default."""
        return self.trials > 0

    @property
    def keeps_default(self) -> bool:
        """Tell whether nothing faster than the default was found: then today's default counts."""
        return math.isfinite(self.seconds) and self.seconds == self.default_seconds

    @property
    def gain(self) -> float:
        """Return how many times faster than the default it is; 1 where that is unknown."""
        ratio = self.default_seconds / self.seconds if self.seconds else math.inf
        return ratio if math.isfinite(ratio) else 1.0

    def line(self) -> str:
        """Return the record as one line of JSON."""
        version = TRACE_VERSION if self.trace else FORMAT_VERSION
        row = {"version": version} | asdict(self)
        extra = row.pop("extra")
        if not self.trace:
            del row["trace"]
        for name in ("seconds", "default_seconds"):
            row[name] = row[name] if math.isfinite(row[name]) else None
        return json.dumps(row | dict(extra), sort_keys=True)


def parse_record(file: Path, number: int, line: str) -> Record:
    """Return the record that `line`, the given one of `file`, holds.

    Raises
    ------
    RecordError
        The line is damaged, or of another format version.
    """
    try:
        row = json.loads(line)
        missing = [name for name in RECORD_FIELDS if name not in row]
        if missing:
            raise KeyError(*missing)
        version = row.pop("version")
        if version not in (FORMAT_VERSION, TRACE_VERSION):
            raise ValueError(f"format version {version!r}")
        known = {name: row.pop(name) for name in Record.__dataclass_fields__ if name in row}
        if version == TRACE_VERSION and not known.get("trace"):
            raise KeyError("trace")
        return _typed(known, row)
    except MALFORMED as error:
        shown = line if len(line) <= SHOWN_CHARACTERS else line[:SHOWN_CHARACTERS] + "..."
        raise RecordError(
            f"tuning records {file}, line {number}",
            expected=f"a JSON object of format version {FORMAT_VERSION} or {TRACE_VERSION} with "
            + ", ".join(RECORD_FIELDS),
            found=f"{shown!r} ({type(error).__name__}: {error})",
            next_step="Remove the damaged line, or tune again.",
        ) from error


def _typed(row: dict[str, Any], extra: dict[str, Any]) -> Record:
    for name in ("target", "hash", "template", "device", "name", "tuner", "versions", "trace"):
        if name in row:
            row[name] = str(row[name])
    row["knobs"] = {str(name): int(value) for name, value in row["knobs"].items()}
    row["shapes"] = tuple(map(str, row.get("shapes", ())))
    for name in ("seconds", "default_seconds"):
        value = row.get(name)
        row[name] = math.inf if value is None else float(value)
    for name in ("flops", "measured_at"):
        row[name] = float(row.get(name, 0.0))
    row["trials"] = int(row.get("trials", 0))
    return Record(**row, extra=extra)
