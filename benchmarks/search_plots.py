"""Draw what ``search_shared.py`` found: the best network so far by trial, for every arm.

    python benchmarks/search_plots.py results.json curves.svg

A line is the median over the seeds, the band goes from the best seed to the worst. All are
latencies, also of an arm that was told operations. Where an arm has found nothing yet, it has no
line.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tvm_fusionx.output_file import new_file

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 16, 44
TICKS = 5
# Seen on a white page and on a dark one.
COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b")


def bands(searches: Sequence[dict[str, Any]]) -> dict[str, list[tuple[float, float, float] | None]]:
    """Return lowest, median and highest cost so far of each arm by trial; None before the first."""
    curves: dict[str, list[list[float | None]]] = {}
    for each in searches:
        curves.setdefault(each["arm"], []).append(each["curve"])
    found: dict[str, list[tuple[float, float, float] | None]] = {}
    for arm, rows in curves.items():
        found[arm] = []
        for place in range(max(map(len, rows))):
            # A search that ended sooner keeps what it had.
            values = [row[min(place, len(row) - 1)] for row in rows]
            known = [value for value in values if value is not None]
            is_whole = len(known) == len(values)
            middle = (min(known), statistics.median(known), max(known)) if is_whole else None
            found[arm].append(middle)
    return found


def drawing(report: dict[str, Any]) -> str:
    """Return the curves as SVG.

    Raises
    ------
    ValueError
        No arm found anything.
    """
    found = bands(report["searches"])
    known = [band for arm in found.values() for band in arm if band is not None]
    if not known:
        raise ValueError("results: expected a search that found something; found none. Run it.")
    lowest, highest = min(band[0] for band in known), max(band[2] for band in known)
    highest = max(highest, lowest * 1.1)
    last = max(map(len, found.values()))

    def x(trial: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * trial / last

    def y(cost: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (highest - cost) / (highest - lowest)

    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' "
        f"font-family='sans-serif' font-size='12' fill='#777'>"
    ]
    for tick in range(TICKS):
        cost = lowest + (highest - lowest) * tick / (TICKS - 1)
        trial = round(last * tick / (TICKS - 1))
        parts.append(
            f"<path d='M{LEFT} {y(cost):.1f}H{WIDTH - RIGHT}' stroke='#ccc' stroke-width='.5'/>"
            f"<text x='{LEFT - 6}' y='{y(cost) + 4:.1f}' text-anchor='end'>{cost:.0f}</text>"
            f"<text x='{x(trial):.1f}' y='{HEIGHT - 26}' text-anchor='middle'>{trial}</text>"
        )
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    parts.append(
        f"<text x='{middle}' y='{HEIGHT - 8}' text-anchor='middle'>networks judged</text>"
        f"<text x='14' y='{HEIGHT / 2}' text-anchor='middle' "
        f"transform='rotate(-90 14 {HEIGHT / 2})'>latency of the best so far, us</text>"
    )
    for number, (arm, rows) in enumerate(found.items()):
        colour = COLOURS[number % len(COLOURS)]
        steps = [(at + 1, band) for at, band in enumerate(rows) if band is not None]
        if steps:
            upper = [f"{x(at):.1f} {y(band[2]):.1f}" for at, band in steps]
            lower = [f"{x(at):.1f} {y(band[0]):.1f}" for at, band in reversed(steps)]
            line = [f"{x(at):.1f} {y(band[1]):.1f}" for at, band in steps]
            parts.append(
                f"<path d='M{'L'.join([*upper, *lower])}Z' fill='{colour}' opacity='.15'/>"
                f"<path d='M{'L'.join(line)}' fill='none' stroke='{colour}' stroke-width='1.8'/>"
            )
        place = TOP + 18 * number + 8
        parts.append(
            f"<path d='M{WIDTH - RIGHT + 10} {place}h18' stroke='{colour}' stroke-width='2'/>"
            f"<text x='{WIDTH - RIGHT + 34}' y='{place + 4}'>{arm}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])


def main(words: list[str] | None = None) -> None:
    """Draw the results of a file into another."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args(words)
    report = json.loads(options.results.read_text(encoding="utf-8"))
    with new_file(options.output) as scratch:
        scratch.write_text(drawing(report), encoding="utf-8")


if __name__ == "__main__":
    main()
