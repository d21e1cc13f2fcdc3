"""What quantising gives: the model, and what was decided for each layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm_fusionx.compress.quantize.picture import trade_off_picture
from tvm_fusionx.errors import DiskFullError
from tvm_fusionx.output_file import new_file

INTEGERS, FLOATS = "int8", "float"


@dataclass(frozen=True)
class LayerRow:
    """One layer of the table.

    Attributes
    ----------
    name, op, kind
        The node, its operator, and what kind of unit it is.
    stored
        ``"int8"`` or ``"float"``.
    reason
        Why it is float; empty for ``"int8"``.
    method
        Whose range its data have: ``"minmax"``, ``"percentile"``, ``"entropy"`` or ``"mse"``.
    drop
        What it costs quantised alone, in the unit of `max_drop`; None where it was not tried.
    float_ms, int8_ms
        What it took, where layers were measured.
    """

    name: str
    op: str
    kind: str
    stored: str
    reason: str = ""
    method: str = ""
    drop: float | None = None
    float_ms: float | None = None
    int8_ms: float | None = None


@dataclass(frozen=True)
class QuantizedModel:
    """A quantised model and how it came about.

    Attributes
    ----------
    model
        The ``ModelProto``; standard operators only (but for 4-bit weights in an old opset).
    layers
        One row for each unit, in the model's order.
    judged_by
        The metric, or that it is the divergence of the outputs on the calibration set.
    float_score, score, full_score
        Of the model in float, of this one, and of the one with every unit in integers (None where
        that was not tried). Larger is better.
    drop, max_drop
        What the model costs, and may cost.
    trials
        How many models were scored.
    notes
        What else a person should know, a sentence each.
    curve
        ``(layers in int8, drop)`` of each trial.
    """

    model: Any
    layers: tuple[LayerRow, ...]
    judged_by: str
    float_score: float
    score: float
    full_score: float | None
    drop: float
    max_drop: float
    trials: int
    notes: tuple[str, ...] = ()
    curve: tuple[tuple[int, float], ...] = ()

    def save(self, path: str | Path) -> None:
        """Write the model to `path`: the whole file, or none.

        Raises
        ------
        OutputFileError
            It cannot be written.
        """
        with new_file(path) as scratch:
            try:
                scratch.write_bytes(self.model.SerializeToString())
            except ValueError as error:
                raise DiskFullError(
                    f"output {path}",
                    expected="a model of less than 2 GiB, which one ONNX file holds",
                    found=str(error),
                    next_step="Save .model with onnx.save(..., save_as_external_data=True).",
                ) from error

    @property
    def kept(self) -> tuple[LayerRow, ...]:
        """Return the rows that stay float."""
        return tuple(row for row in self.layers if row.stored == FLOATS)

    def to_json(self) -> dict[str, Any]:
        """Return all but the model, for ``json.dumps``."""
        plain = {name: value for name, value in vars(self).items() if name != "model"}
        # JSON knows no infinity, which stands for no bound.
        bound = self.max_drop if math.isfinite(self.max_drop) else None
        return {**plain, "max_drop": bound, "layers": [asdict(row) for row in self.layers]}

    def picture(self, title: str = "") -> str:
        """Return the trade-off as SVG: what each trial cost, by its layers in integers."""
        layers = len(self.layers)
        chosen = (layers - len(self.kept), self.drop)
        told = f"{title}: {self._verdict()}" if title else self._verdict()
        return trade_off_picture(self.curve, chosen, layers, self.max_drop, told)

    def text(self) -> str:
        """Return the table of the layers, and what became of the accuracy."""
        is_timed = any(row.float_ms is not None for row in self.layers)
        lines = [_row("layer", "operator", "stored", "range", "costs alone", *_times(is_timed))]
        for row in self.layers:
            cost = "-" if row.drop is None else f"{row.drop:.2e}"
            times = (_ms(row.float_ms), _ms(row.int8_ms)) if is_timed else ()
            text = _row(row.name, row.op, row.stored, row.method or "-", cost, *times)
            lines.append(f"{text}  {row.reason}".rstrip())
        integers = len(self.layers) - len(self.kept)
        lines.append(f"{integers} of {len(self.layers)} layers in integers; {self.trials} trials")
        lines.append(self._verdict())
        return "\n".join([*lines, *self.notes])

    def _verdict(self) -> str:
        full = "" if self.full_score is None else f", all in integers {self.full_score:.6g}"
        scores = f"float {self.float_score:.6g}, this model {self.score:.6g}{full}"
        return f"{self.judged_by}: {scores}; costs {self.drop:.3g} of {self.max_drop:g} allowed"


def _times(is_timed: bool) -> tuple[str, ...]:
    return ("float ms", "int8 ms") if is_timed else ()


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _row(name: str, *cells: str) -> str:
    shown = name if len(name) <= 40 else f"…{name[-39:]}"
    return f"{shown:<40}" + "".join(f" {cell:>11}" for cell in cells)


def curve_of(trials: Mapping[frozenset[str], float]) -> tuple[tuple[int, float], ...]:
    """Return ``(layers in integers, drop)`` of each trial, by the number of layers."""
    return tuple(sorted((len(active), drop) for active, drop in trials.items()))
