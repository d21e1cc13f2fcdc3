"""What `sparse.py` measured, as tables: pruned layers and models beside other runtimes.

The last column but one of the models has what the seed of this work (CoCoPIE XGen) gained by
compression over its own compiler: a bar, at rates that it does not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Rows = Sequence[dict[str, Any]]

OTHERS = ("TVM sparse", "OpenVINO", "MNN", "ONNX Runtime")
SPARSE, DENSE = "sparse", "dense"
TOLERANCE = 1e-4

# From issue texts of XGen: times faster than its own dense models.
SEED_GAINS = {
    "vgg16": 4.6,
    "yolo-v4": 2.0,
    "c3d": 1.9,
    "unet": 1.5,
    "bert-base": 1.4,
    "efficientnet-b0": 1.35,
    "gpt2": 1.25,
}
# What we ask of ourselves, over our own dense kernels.
ASKED = {
    "dense 128x3072x768, block 8x": 5.0,
    "bert-base": 2.2,
    "resnet50": 2.0,
    "vgg16": 2.0,
    "efficientnet-b0": 1.3,
    "c3d": 2.0,
}

LAYER_HEADER = (
    *("layer", "sparse", "dense", "gain", "asked", "of the peak", *OTHERS, "best other / ours"),
)
MODEL_HEADER = (
    *("model", "rate", "sparse", "dense", "gain", "asked", "the seed's gain"),
    *("weights", *OTHERS, "best other / ours"),
)


def pruned_page(results: Rows) -> str:
    """Return both tables in Markdown; the rows that failed are named."""
    rows = [row for row in results if "failed" not in row]
    failed = [f"{row['name']} ({row['failed']})" for row in results if "failed" in row]
    layers, models = ([row for row in rows if row["kind"] == kind] for kind in ("layer", "model"))
    parts = []
    if rows:
        machines = "; ".join(sorted({row["device"] for row in rows}))
        peaks = [row["peak_gflops_per_second"] for row in rows]
        parts.append(
            f"Median milliseconds on {machines}, {rows[0]['threads']} threads, peak"
            f" {min(peaks):.0f} to {max(peaks):.0f} GFLOP/s; all sides take turns and read the same"
            " weights, of which groups of 16 outputs keep their largest columns (`make"
            " bench-sparse`). *Gain*: our dense kernels, minimal filtering included, over our"
            " sparse ones. *Of the peak*: multiply-adds of what is not zero. † marks what computed"
            " something else than ONNX Runtime: it counts nowhere. A dash: the runtime has no such"
            " operator, or failed."
        )
    if layers:
        parts.append(_table(LAYER_HEADER, [_layer(row) for row in layers]))
    if models:
        parts.append(_table(MODEL_HEADER, [_model(row) for row in models]))
    if failed:
        parts.append(f"No result: {', '.join(failed)}.")
    return "\n\n".join(parts)


def _layer(row: dict[str, Any]) -> list[str]:
    return [
        row["name"],
        *(f"{row['ms'][side]:.3f}" for side in (SPARSE, DENSE)),
        f"{row['gain']:.2f}",
        _times(ASKED.get(row["name"])),
        f"{row['share_of_peak']:.0%}",
        *_others(row, 3),
    ]


def _model(row: dict[str, Any]) -> list[str]:
    bytes_ = row["weight_bytes"]
    return [
        row["name"],
        f"{row['rate']:g}x",
        *(f"{row['ms'][side]:.2f}" for side in (SPARSE, DENSE)),
        f"{row['gain']:.2f}",
        _times(ASKED.get(row["name"])),
        _times(SEED_GAINS.get(row["name"])),
        f"{bytes_[SPARSE] / bytes_[DENSE]:.0%}",
        *_others(row, 2),
    ]


def _others(row: dict[str, Any], digits: int) -> list[str]:
    cells = []
    for side in OTHERS:
        ms = row["ms"].get(side)
        is_wrong = ms is not None and not row["difference"][side] <= TOLERANCE
        cells.append("-" if ms is None else f"{ms:.{digits}f}{'†' * is_wrong}")
    return [*cells, _times(row["best_other"])]


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
