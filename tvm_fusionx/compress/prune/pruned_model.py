"""What pruning gives: the model, and what became of each layer."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.compress.prune.layouts import Layout
from tvm_fusionx.compress.prune.structures import BLOCK, FILTER, N_M, UNSTRUCTURED, Structure
from tvm_fusionx.output_file import new_file

LONGEST_NAME = 36


@dataclass(frozen=True)
class PrunedLayer:
    """One layer of the table.

    Attributes
    ----------
    name, kind, shape
        The layer, its kind, and the shape of its weights as they are stored.
    structure
        In words, such as ``"block 16x1"``; empty where it stayed dense.
    reason
        Why it stayed dense.
    weights, zeros
        How many it has, and how many of them are zero.
    kept_energy
        Sum of squares of what stays, relative to that of the weights before they were cut.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    structure: str
    reason: str
    weights: int
    zeros: int
    kept_energy: float

    @property
    def sparsity(self) -> float:
        """Return the share of zeros."""
        return self.zeros / max(1, self.weights)


@dataclass(frozen=True)
class PrunedModel:
    """A pruned model and how it came about.

    Attributes
    ----------
    model
        ``ModelProto`` with zeros in its constants.
    layers
        One row for each layer with weights, in the model's order.
    method, seed
        How it was pruned, and the seed of all draws (None: none was made).
    dense_score, cut_score, score
        What `evaluate` said of the model before, right after the cut, and at the end; None where
        nobody asked.
    sparsity_found
        The sparsity that the search for a budget ended with.
    history
        ``(sparsity, score)``, or ``(sparsity, milliseconds)``, of each trial of such a search.
    notes
        What else a person should know, a sentence each.
    module
        The torch module with the same weights; None for a model that came as ONNX.
    """

    model: Any
    layers: tuple[PrunedLayer, ...]
    method: str
    seed: int | None
    dense_score: float | None = None
    cut_score: float | None = None
    score: float | None = None
    sparsity_found: float | None = None
    history: tuple[tuple[float, float], ...] = ()
    notes: tuple[str, ...] = ()
    module: Any = None

    @property
    def sparsity(self) -> float:
        """Return the share of zeros in the layers that were pruned."""
        pruned = [row for row in self.layers if row.structure]
        return sum(row.zeros for row in pruned) / max(1, sum(row.weights for row in pruned))

    def save(self, path: str | Path) -> None:
        """Write the model as ONNX: the whole file, or none.

        Raises
        ------
        OutputFileError
            It cannot be written.
        """
        with new_file(path) as scratch:
            scratch.write_bytes(self.model.SerializeToString())

    def save_report(self, path: str | Path) -> None:
        """Write :meth:`to_json` to a file."""
        with new_file(path) as scratch:
            scratch.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")

    def to_json(self) -> dict[str, Any]:
        """Return all but the model, for ``json.dumps``."""
        plain = {name: each for name, each in vars(self).items() if name not in ("model", "module")}
        rows = [{**asdict(row), "sparsity": row.sparsity} for row in self.layers]
        return {**plain, "layers": rows, "sparsity": self.sparsity}

    def text(self) -> str:
        """Return the table of the layers, and what became of the accuracy."""
        lines = [_row("layer", "kind", "structure", "zeros", "rate", "energy kept")]
        for row in self.layers:
            rate = f"{1 / (1 - row.sparsity):.2f}x" if row.zeros < row.weights else "all"
            cells = (f"{row.sparsity:.1%}", rate, f"{row.kept_energy:.3f}")
            shown = _row(row.name, row.kind, row.structure or "dense", *cells)
            lines.append(f"{shown}  {row.reason}".rstrip())
        pruned = sum(bool(row.structure) for row in self.layers)
        times = 1 / max(1e-9, 1 - self.sparsity)
        lines.append(
            f"{pruned} of {len(self.layers)} layers pruned ({self.method}): "
            f"{self.sparsity:.2%} of their weights are zero, {times:.2f}x"
        )
        if self.score is not None:
            lines.append(self._verdict())
        return "\n".join([*lines, *self.notes])

    def _verdict(self) -> str:
        cut = "" if self.cut_score is None else f", right after the cut {self.cut_score:.6g}"
        seed = "" if self.seed is None else f" (seed {self.seed})"
        return f"score: dense {_score(self.dense_score)}, pruned {_score(self.score)}{cut}{seed}"


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _row(name: str, *cells: str) -> str:
    shown = name if len(name) <= LONGEST_NAME else f"…{name[1 - LONGEST_NAME :]}"
    return f"{shown:<{LONGEST_NAME}}" + "".join(f" {cell:>14}" for cell in cells)


def words_of(structure: Structure) -> str:
    """Return a structure in words, such as ``"pattern, groups of 16"``."""
    sizes = {
        BLOCK: "x".join(map(str, structure.block_size)),
        N_M: ":".join(map(str, structure.n_m_ratio or ())),
        UNSTRUCTURED: "",
        FILTER: "",
    }
    return f"{structure.kind} {sizes.get(structure.kind, f'/{structure.group_size}')}".strip()


def layer_row(
    layout: Layout,
    structure: Structure | None,
    reason: str,
    dense: np.ndarray,
    pruned: np.ndarray,
    kept_energy: float | None = None,
) -> PrunedLayer:
    """Return a layer's row of the table, counted on its weights before and after.

    Parameters
    ----------
    layout, structure, reason
        The layer, what it got, and why not more.
    dense, pruned
        Weights before and after.
    kept_energy
        Given where weights were trained in between.
    """
    if kept_energy is None:
        whole = float(np.square(dense.astype("float64")).sum())
        kept_energy = float(np.square(pruned.astype("float64")).sum()) / whole if whole else 1.0
    return PrunedLayer(
        layout.name,
        layout.kind,
        layout.shape,
        "" if structure is None else words_of(structure),
        reason,
        int(pruned.size),
        int(pruned.size - np.count_nonzero(pruned)),
        kept_energy,
    )
