"""The layers of a model and their zeros, in lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_fusionx.build.memory import size_text
from tvm_fusionx.report.sparsity.layers import LayerSparsity

HEAD = ("layer", "weight", "not zero", "group", "multiplied", "gain", "ties at", "measured", "is")
ABSENT = "-"


def sparsity_lines(layers: Sequence[LayerSparsity]) -> list[str]:
    """Return a row for each layer, reasons below those that stay dense, and a summary."""
    rows = [HEAD, *map(_row, layers)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    reasons = [f"    {layer.reason}" if layer.reason else None for layer in layers]
    found = [lines[0]]
    for line, reason in zip(lines[1:], reasons, strict=True):
        found += [line] if reason is None else [line, reason]
    return [*found, summary(layers)]


def summary(layers: Sequence[LayerSparsity]) -> str:
    """Return how many layers are sparse, and what their weights take."""
    sparse = [layer for layer in layers if layer.is_sparse]
    before = sum(layer.dense_bytes or 0 for layer in sparse)
    after, rows = (
        sum(getattr(layer, name) or 0 for layer in sparse) for name in ("sparse_bytes", "csr_bytes")
    )
    told = f"{len(sparse)} of {len(layers)} products leave zeros out"
    if not sparse:
        return told
    return (
        f"{told}: their weights take {size_text(after)} instead of {size_text(before)}"
        f" (compressed rows would take {size_text(rows)})"
    )


def _row(layer: LayerSparsity) -> tuple[str, ...]:
    def share(value: float | None) -> str:
        return ABSENT if value is None else f"{value:.1%}"

    times = (layer.dense_us, layer.sparse_us)
    measured = ABSENT if None in times else f"{times[0]:.0f} / {times[1]:.0f} us"
    return (
        layer.name,
        f"{layer.channels} x {layer.length} at {layer.places}",
        share(layer.density),
        ABSENT if layer.group is None else str(layer.group),
        share(layer.effective_density),
        ABSENT if layer.gain is None else f"{layer.gain:.2f}x",
        share(layer.break_even_density),
        measured,
        "sparse" if layer.is_sparse else "dense",
    )
