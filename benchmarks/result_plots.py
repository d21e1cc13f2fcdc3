"""Plots of a run as SVG: bars of latency, and the blocks under the machine's roofline."""

from __future__ import annotations

import html
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from kernel_profile import moved_bytes
from measured_runs import SIDES, MeasuredRun, measured_sides

# All are seen on a white page and on a dark one.
COLOURS = {
    "fusionx": "#d62728",
    "unfused": "#f4a6a6",
    "tvm": "#7f7f7f",
    "ort": "#1f77b4",
    "openvino": "#17becf",
    "mnn": "#2ca02c",
    "ncnn": "#98df8a",
    "torch": "#ff7f0e",
    "torch-compile": "#ffbb78",
    "executorch": "#9467bd",
    "litert": "#8c564b",
    "tvm-metaschedule": "#a39020",
    "fusionx-tuned": "#e377c2",
}
WIDTH = 1100
LEFT, RIGHT, BOTTOM = 150, 20, 40
BAR, GAP = 12, 12
# A line of the legend, and in it a square, what a letter takes at most, and the space behind.
LEGEND_LINE, SQUARE, LETTER, SPACE = 18, 14, 7, 18
# Room for a value right of the longest bar.
VALUE = 40
# What rounds to a number of three places before the point.
MORE_THAN_TWO_PLACES = 99.95
ROOFLINE_HEIGHT = 520
GIGA = 1e9
MICROSECOND = 1e-6
DOT = 2.2


def latency_bars(run: MeasuredRun) -> str:
    """Return a bar a side for every model, on a logarithmic axis of milliseconds."""
    sides = measured_sides(run)
    times = [row["median"] for each in run.results for row in each["latency_ms"].values()]
    low, high = _decades(min(times)), _decades(max(times), up=True)
    across = _logarithmic(low, high, LEFT, WIDTH - RIGHT - VALUE)
    legend, top = _legend(sides)
    bars: list[str] = []
    place = top
    for result in run.results:
        measured = [side for side in sides if side in result["latency_ms"]]
        middle = place + BAR * len(measured) / 2
        bars.append(
            f"<text x='{LEFT - 8}' y='{middle:.0f}' text-anchor='end' dominant-baseline='middle'>"
            f"{html.escape(result['model'])}</text>"
        )
        for side in measured:
            median = result["latency_ms"][side]["median"]
            end = across(median)
            bars.append(
                f"<rect x='{LEFT}' y='{place}' height='{BAR - 1}' "
                f"width='{end - LEFT:.1f}' fill='{COLOURS[side]}'>"
                f"<title>{html.escape(result['model'])}, {SIDES[side]}: {median:.2f} ms</title>"
                f"</rect><text class='value' x='{end + 4:.1f}' y='{place + BAR - 2}'>"
                f"{_three_digits(median)}</text>"
            )
            place += BAR
        place += GAP
    return _svg(
        place + BOTTOM, [*legend, *_vertical_grid(low, high, across, top, place, "ms"), *bars]
    )


def roofline(run: MeasuredRun) -> str:
    """Return a point a block: operations a byte, and operations a second, under the roof.

    Operations that it executes and bytes that it touches: blocks of older results, which tell
    neither, have none.
    """
    peak, bandwidth = run.machine["gflops_per_second"], run.machine["gbytes_per_second"]
    points = [
        (work["flops"] / moved_bytes(work), work["flops"] / block["us"] / MICROSECOND / GIGA,
         result["model"], block)
        for result in run.results
        for block in result.get("blocks", [])
        if (work := block.get("work")) and work["flops"] and moved_bytes(work) and block["us"]
    ]  # fmt: skip
    left = _decades(min((x for x, *_ in points), default=1.0))
    right = _decades(max([x for x, *_ in points] + [peak / bandwidth]), up=True)
    low = _decades(min((y for _, y, *_ in points), default=1.0))
    high = _decades(max([y for _, y, *_ in points] + [peak]), up=True)
    across = _logarithmic(left, right, LEFT, WIDTH - RIGHT)
    up = _logarithmic(low, high, ROOFLINE_HEIGHT - BOTTOM, GAP)
    parts = list(
        _vertical_grid(left, right, across, GAP, ROOFLINE_HEIGHT - BOTTOM, "operations a byte")
    )
    for value in _powers(low, high):
        parts.append(
            f"<line class='grid' x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{up(value):.1f}' "
            f"y2='{up(value):.1f}' stroke='#ddd'/>"
            f"<text x='{LEFT - 8}' y='{up(value):.1f}' text-anchor='end'>"
            f"{value:g} GFLOP/s</text>"
        )
    # From the left, or from where the slope enters the plot, to the ridge, to the right.
    start = max(left, low / bandwidth)
    ridge = peak / bandwidth
    corners = [(start, start * bandwidth), (ridge, peak), (right, peak)]
    path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in corners)
    parts.append(
        f"<polyline points='{path}' class='roof' fill='none' stroke='#333' stroke-width='1.5'/>"
    )
    for x, y, model, block in points:
        told = f"{model}: {block['name']} ({block['template']}), {block['us']:.0f} µs, {y:.1f}"
        parts.append(
            f"<circle cx='{across(x):.1f}' cy='{up(y):.1f}' r='{DOT}' fill='{COLOURS['fusionx']}' "
            f"fill-opacity='.5'><title>{html.escape(told)} GFLOP/s</title></circle>"
        )
    if not points:
        told = "These results do not tell what their blocks execute and touch."
        parts.append(f"<text x='{LEFT + GAP}' y='{3 * GAP}'>{told}</text>")
    return _svg(ROOFLINE_HEIGHT, parts)


def _logarithmic(low: float, high: float, first: float, last: float) -> Callable[[float], float]:
    """Return where a value lies between two places of the plot."""
    span = math.log10(high / low)
    return lambda value: first + (last - first) * math.log10(value / low) / span


def _decades(value: float, *, up: bool = False) -> float:
    """Return the power of ten at or below a value, or the next above it."""
    exponent = math.floor(math.log10(value))
    return 10.0 ** (exponent + 1 if up else exponent)


def _powers(low: float, high: float) -> Iterator[float]:
    first, last = round(math.log10(low)), round(math.log10(high))
    yield from (10.0**exponent for exponent in range(first, last + 1))


def _vertical_grid(
    low: float, high: float, across: Callable[[float], float], top: float, bottom: float, unit: str
) -> Iterator[str]:
    for value in _powers(low, high):
        x = f"{across(value):.1f}"
        yield f"<line class='grid' x1='{x}' x2='{x}' y1='{top}' y2='{bottom}' stroke='#ddd'/>"
        yield f"<text x='{x}' y='{bottom + 15}' text-anchor='middle'>{value:g}</text>"
    yield f"<text x='{WIDTH - RIGHT}' y='{bottom + 30}' text-anchor='end'>{unit}</text>"


def _legend(sides: list[str]) -> tuple[list[str], int]:
    """Return a square and a name for each side, and where below them the plot begins."""
    parts = []
    x, y = LEFT, SQUARE - 6
    for side in sides:
        width = SQUARE + LETTER * len(SIDES[side]) + SPACE
        if x + width > WIDTH:
            x, y = LEFT, y + LEGEND_LINE
        parts.append(
            f"<rect x='{x}' y='{y}' width='10' height='10' fill='{COLOURS[side]}'/>"
            f"<text x='{x + SQUARE}' y='{y + 9}'>{SIDES[side]}</text>"
        )
        x += width
    return parts, y + LEGEND_LINE + GAP


def _three_digits(value: float) -> str:
    """Return a time with three significant digits, and with all before the point."""
    return f"{value:.0f}" if value >= MORE_THAN_TWO_PLACES else f"{value:#.3g}"


def _svg(height: float, parts: list[str]) -> str:
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height:.0f}'>"
        + "\n".join(parts)
        + "</svg>"
    )
