"""How the rows of one layer are put together: what calibration chooses, as a file keeps it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tvm_fusionx.errors import ModelError
from tvm_fusionx.reuse.kept import Kept

# Bits of a code: it is the place in a table, which should stay in the first-level cache.
MOST_BITS = 12

# Elements of a segment at most.
LONGEST = 4096

# Of the ONNX file and of a Relay module: choices by the names of the layers' nodes.
ATTRIBUTE = "fusionx.reuse"

MEAN, FIRST = "mean", "first"


@dataclass(frozen=True)
class Choice:
    """How one layer's rows are put together.

    Attributes
    ----------
    length
        Elements of a segment, of a row of the unfolded input.
    bits
        Random projections whose signs make the code of a segment.
    limit
        Clusters of one segment at most: what finds no place is computed singly.
    representative
        ``"mean"`` of a cluster, or its ``"first"`` segment.
    per_batch
        Whether the images of a batch share clusters.
    thresholds
        Above which a projection's bit is set: for each segment of a row in its order, for each bit.
    seed
        Of the projections.
    kept
        Clusters that calls share; None where each call finds its own.
    """

    length: int
    bits: int
    limit: int
    representative: str
    per_batch: bool
    thresholds: tuple[tuple[float, ...], ...]
    seed: int = 0
    kept: Kept | None = None

    def projections(self) -> np.ndarray:
        """Return the projections: float32 ``[length, bits]`` of -1 and 1.

        The generator is one whose numbers NumPy promises never to change.
        """
        draw = np.random.RandomState(self.seed)
        return (2 * draw.randint(0, 2, (self.length, self.bits)) - 1).astype("float32")

    def threshold_array(self) -> np.ndarray:
        """Return the thresholds: float32 ``[segments, bits]``."""
        return np.asarray(self.thresholds, "float32").reshape(-1, self.bits)

    def why_wrong(self) -> str | None:
        """Return what of a choice cannot be, or None."""
        for name, value, most in (
            ("length", self.length, LONGEST),
            ("bits", self.bits, MOST_BITS),
            ("limit", self.limit, 1 << MOST_BITS),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                return f"{name} {value!r}, which is not from 1 to {most}"
        if self.representative not in (MEAN, FIRST):
            return f"representative {self.representative!r}, neither {MEAN} nor {FIRST}"
        if not isinstance(self.per_batch, bool):
            return f"per_batch {self.per_batch!r}, neither true nor false"
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            return f"seed {self.seed!r}, no number from 0 on"
        if not self.thresholds or any(len(row) != self.bits for row in self.thresholds):
            return f"thresholds that are not rows of {self.bits}"
        if not all(math.isfinite(each) for row in self.thresholds for each in row):
            return "thresholds that are not finite"
        if self.kept is None:
            return None
        return self.kept.why_wrong(self.length, self.bits, len(self.thresholds))


def choices_text(choices: Mapping[str, Choice]) -> str:
    """Return choices by layer as a text, of which :func:`choices_of_text` makes them again."""
    return json.dumps({name: asdict(choice) for name, choice in choices.items()}, allow_nan=False)


def choices_of_text(text: str) -> dict[str, Choice]:
    """Return the choices that a text tells, by the names of the layers.

    Raises
    ------
    ModelError
        It is no such text.
    """
    try:
        found = {str(name): _choice_of(row) for name, row in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise _refusal(f"{type(error).__name__}: {error}") from error
    for name, choice in found.items():
        why = choice.why_wrong()
        if why is not None:
            raise _refusal(f"layer {name!r} has {why}")
    return found


def _choice_of(row: Mapping[str, Any]) -> Choice:
    thresholds = tuple(tuple(float(each) for each in line) for line in row["thresholds"])
    kept = row.get("kept")
    if kept is not None:
        codes = tuple(tuple(int(each) for each in line) for line in kept["codes"])
        kept = Kept(codes, str(kept["means"]))
    return Choice(**{**row, "thresholds": thresholds, "kept": kept})


def _refusal(found: str) -> ModelError:
    return ModelError(
        f"the model's property {ATTRIBUTE!r}",
        expected="what `fusionx reuse` writes: JSON, a choice for each layer by name",
        found=found,
        next_step="Make the file again with `fusionx reuse`, or take the property out.",
    )
