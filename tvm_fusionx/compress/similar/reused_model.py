"""What choosing gives: the model with its choices, and what was decided for each layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm_fusionx.compress.similar.candidates import Candidate
from tvm_fusionx.output_file import new_file
from tvm_fusionx.reuse.choice import Choice

REUSES, COMPUTES = "reuses", "computes"


@dataclass(frozen=True)
class ReuseRow:
    """One layer of the table.

    Attributes
    ----------
    name
        The ONNX node.
    done
        ``"reuses"`` or ``"computes"``.
    reason
        Why it computes all of its products; empty where it does not.
    rows, columns, channels
        Of its product as matrices: for one sample.
    length, bits, limit
        Of a segment, of its code, and clusters at most; None where nothing was tried, as below.
    saved
        Share of the products that are not computed, on the calibration set.
    hashing
        Multiply-adds of hashing, relative to those of all products.
    error
        Of the layer's own results, relative to the exact ones.
    hashing_cycles, multiplying_cycles, adding_cycles, dense_cycles
        Estimates for the target.
    drop
        What the model loses by this layer alone; None where it was not tried.
    """

    name: str
    done: str
    reason: str = ""
    rows: int | None = None
    columns: int | None = None
    channels: int | None = None
    length: int | None = None
    bits: int | None = None
    limit: int | None = None
    saved: float | None = None
    hashing: float | None = None
    error: float | None = None
    hashing_cycles: float | None = None
    multiplying_cycles: float | None = None
    adding_cycles: float | None = None
    dense_cycles: float | None = None
    drop: float | None = None

    @property
    def gain(self) -> float | None:
        """How many times faster it should be, by the estimates."""
        parts = (self.hashing_cycles, self.multiplying_cycles, self.adding_cycles)
        known = [each for each in parts if each is not None]
        if self.dense_cycles is None or len(known) < len(parts):
            return None
        return self.dense_cycles / max(1.0, sum(known))


def row_of(
    name: str, reason: str | None, candidate: Candidate | None, drop: float | None
) -> ReuseRow:
    """Return the row of a layer, of which a candidate was judged or not."""
    done = REUSES if reason is None else COMPUTES
    if candidate is None:
        return ReuseRow(name, done, reason or "")
    choice, layer, cycles = candidate.choice, candidate.layer, candidate.cycles
    return ReuseRow(
        name,
        done,
        reason or "",
        layer.images * layer.pixels,
        layer.columns,
        layer.channels,
        choice.length,
        choice.bits,
        choice.limit,
        1 - candidate.computed_share,
        candidate.hashing_share,
        candidate.error,
        cycles.hashing,
        cycles.multiplying,
        cycles.adding,
        candidate.dense_cycles,
        drop,
    )


@dataclass(frozen=True)
class ReusedModel:
    """A model with the choices of its layers, and how they came about.

    Attributes
    ----------
    model
        The ``ModelProto``: standard ONNX, whose property ``fusionx.reuse`` has the choices. Other
        runtimes pass over it and compute all products.
    choices
        Of the layers that reuse products, by name.
    layers
        A row for each layer, in the model's order.
    judged_by
        The metric, or that it is the divergence of the outputs on the calibration set.
    exact_score, score
        Of the model that computes all, and of this one. Larger is better.
    divergence
        Squares of the differences of this one's outputs, relative to the squares of the exact ones.
    drop, max_drop
        What the model costs, and may cost.
    trials
        How many models were built and scored.
    target
        What costs were estimated for.
    """

    model: Any
    choices: Mapping[str, Choice]
    layers: tuple[ReuseRow, ...]
    judged_by: str
    exact_score: float
    score: float
    divergence: float
    drop: float
    max_drop: float
    trials: int
    target: str

    def save(self, path: str | Path) -> None:
        """Write the model to `path`: the whole file, or none.

        Raises
        ------
        OutputFileError
            It cannot be written.
        """
        with new_file(path) as scratch:
            scratch.write_bytes(self.model.SerializeToString())

    def to_json(self) -> dict[str, Any]:
        """Return all but the model and the thresholds, for ``json.dumps``."""
        plain = {name: value for name, value in vars(self).items() if name != "model"}
        rows = [{**asdict(row), "gain": row.gain} for row in self.layers]
        return {**plain, "choices": sorted(self.choices), "layers": rows}

    def text(self) -> str:
        """Return the table of the layers, and what became of the accuracy."""
        heads = ("length", "bits", "saved", "hashing", "error", "est. gain", "costs alone")
        lines = [_line("layer", *heads)]
        for row in self.layers:
            cells = (
                _cell(row.length, "d"),
                _cell(row.bits, "d"),
                _cell(row.saved, ".1%"),
                _cell(row.hashing, ".1%"),
                _cell(row.error, ".3f"),
                _cell(row.gain, ".2f"),
                _cell(row.drop, ".2e"),
            )
            lines.append(f"{_line(row.name, *cells)}  {row.reason}".rstrip())
        done = sum(row.done == REUSES for row in self.layers)
        lines.append(f"{done} of {len(self.layers)} layers reuse products; {self.trials} trials")
        lines.append(
            f"{self.judged_by}: exact {self.exact_score:.6g}, this model {self.score:.6g};"
            f" costs {self.drop:.3g} of {self.max_drop:g} allowed"
        )
        lines.append(f"outputs moved by {self.divergence:.3g} of their squares")
        return "\n".join(lines)


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _line(name: str, *cells: str) -> str:
    shown = name if len(name) <= 40 else f"…{name[-39:]}"
    return f"{shown:<40}" + "".join(f" {cell:>11}" for cell in cells)
