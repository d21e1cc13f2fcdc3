"""The guard's trials as JSON lines, each on the disk before the next begins.

Whatever ends a run, another one of the same model, calibration set and choices goes on with what is
there: a trial that is known is not run again. A last line without its end is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tvm_fusionx.compress.quantize.score import Score
from tvm_fusionx.errors import MALFORMED, RecordError
from tvm_fusionx.output_file import check_writable, new_file

FORMAT_VERSION = 1
HEADER = "fusionx_quantize_journal"


class TrialJournal:
    """Scores by the set of units that were quantised.

    Parameters
    ----------
    path
        Its file; None keeps trials in memory alone.
    fingerprint
        Of what the scores depend on.
    resume
        Whether to go on with a file that is there; otherwise it is begun anew.

    Raises
    ------
    RecordError
        The file to go on with is of another model or choices, or damaged.
    OutputFileError
        It cannot be written.
    """

    def __init__(self, path: Path | None, fingerprint: str, *, resume: bool = False) -> None:
        self.path = path
        self._header = {HEADER: FORMAT_VERSION, "fingerprint": fingerprint}
        self._known: dict[frozenset[str], Score] = {}
        if path is None:
            return
        check_writable(path)
        if resume and path.exists():
            self._read(path)
        # Written anew: whole lines only.
        with new_file(path) as scratch:
            scratch.write_text("".join(f"{line}\n" for line in self._lines()), encoding="utf-8")

    def __len__(self) -> int:
        return len(self._known)

    def get(self, active: Collection[str]) -> Score | None:
        """Return the score of the model in which these units are quantised, if it is known."""
        return self._known.get(frozenset(active))

    def add(self, active: Collection[str], score: Score) -> None:
        """Keep a score."""
        self._known[frozenset(active)] = score
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(frozenset(active), score) + "\n")
                file.flush()
                os.fsync(file.fileno())

    def trials(self) -> list[tuple[frozenset[str], Score]]:
        """Return all trials in their order."""
        return list(self._known.items())

    def _lines(self) -> list[str]:
        rows = [_line(active, score) for active, score in self._known.items()]
        return [json.dumps(self._header), *rows]

    def _read(self, path: Path) -> None:
        try:
            lines = path.read_text(encoding="utf-8").split("\n")[:-1]
            if not lines:
                return
            rows = [json.loads(line) for line in lines]
            if rows[0] != self._header:
                raise self._refusal("a journal of another model, calibration set, or choices")
            for row in rows[1:]:
                score = Score(float(row["score"]), float(row["divergence"]))
                self._known[frozenset(map(str, row["int8"]))] = score
        except (OSError, *MALFORMED) as error:
            if isinstance(error, RecordError):
                raise
            raise self._refusal(f"{type(error).__name__}: {error}") from error

    def _refusal(self, found: str) -> RecordError:
        return RecordError(
            f"journal {self.path}",
            expected="the trials of this model with these choices, one JSON object a line",
            found=found,
            next_step="Give the same options as before, or begin anew without --resume.",
        )


def _line(active: frozenset[str], score: Score) -> str:
    row: dict[str, Any] = {
        "int8": sorted(active),
        "score": score.value,
        "divergence": score.divergence,
    }
    return json.dumps(row, allow_nan=False)
