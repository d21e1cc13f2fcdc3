"""What a search found, as one static page: the front of accuracy and latency, and every trial."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path

from tvm_fusionx.output_file import new_file
from tvm_fusionx.search.journal import WHOLE, Result
from tvm_fusionx.search.reward import pareto_front
from tvm_fusionx.search.space import candidate_text

WIDTH, HEIGHT, MARGIN = 720, 420, 56
TICKS = 5
# How often the page of a search that goes on is loaded anew by whoever looks at it.
RELOAD_SECONDS = 10
# Of the axes: a little air around the outermost points.
AIR = 0.06

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .2em .6em; }
th { border-bottom: 1px solid; } td { border-bottom: 1px solid #8884; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: currentColor; }
.axis { stroke: currentColor; } .trial { fill: #8888; } .front { fill: #0a7; }
.line { fill: none; stroke: #0a7; } .limit { stroke: #c40; stroke-dasharray: 4 4; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd; } }
"""


def write_page(
    results: Sequence[Result],
    path: str | Path,
    *,
    title: str,
    limit_us: float = math.inf,
    goes_on: bool = False,
) -> None:
    """Write the page of a search; it needs nothing else to be looked at.

    Parameters
    ----------
    results
        All that was judged; those that were not trained whole are counted alone.
    limit_us
        The latency that was asked for, drawn where there is one.
    goes_on
        Whether the search does: then the page loads itself anew.

    Raises
    ------
    OutputFileError
        The file cannot be written.
    """
    with new_file(path) as scratch:
        text = page(results, title=title, limit_us=limit_us, goes_on=goes_on)
        scratch.write_text(text, encoding="utf-8")


def page(
    results: Sequence[Result], *, title: str, limit_us: float = math.inf, goes_on: bool = False
) -> str:
    """Return the page as text; parameters as for :func:`write_page`."""
    shown = [
        each
        for each in results
        if each.share == WHOLE and not math.isnan(each.accuracy) and math.isfinite(each.latency_us)
    ]
    front = pareto_front(shown)
    failed = [each for each in results if each.failure]
    rows = "".join(
        f'<tr><td class="number">{each.accuracy:.2%}</td>'
        f'<td class="number">{each.latency_us:.1f}</td>'
        f"<td>{html.escape(candidate_text(each.candidate))}</td></tr>"
        for each in front
    )
    reasons: dict[str, int] = {}
    for each in failed:
        reasons[each.failure] = reasons.get(each.failure, 0) + 1
    told = "".join(
        f"<li>{count} not trained: {html.escape(reason)}</li>" for reason, count in reasons.items()
    )
    reload = f'<meta http-equiv="refresh" content="{RELOAD_SECONDS}">' if goes_on else ""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{reload}'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style>"
        f"<h1>{html.escape(title)}</h1><p>{len(results)} networks judged, {len(shown)} trained "
        f"whole, {len(front)} on the front.</p>{_plot(shown, front, limit_us)}"
        "<h2>The front</h2><table><tr><th>accuracy<th>latency, us<th>network</tr>"
        f"{rows}</table><ul>{told}</ul></html>\n"
    )


def _plot(shown: Sequence[Result], front: Sequence[Result], limit_us: float) -> str:
    if not shown:
        return "<p>Nothing is trained yet.</p>"
    latencies = [each.latency_us for each in shown]
    if math.isfinite(limit_us):
        latencies.append(limit_us)
    x = _Axis(latencies, MARGIN, WIDTH - MARGIN / 2)
    y = _Axis([each.accuracy for each in shown], HEIGHT - MARGIN, MARGIN / 2)
    parts = [
        f'<line class="axis" x1="{MARGIN}" y1="{HEIGHT - MARGIN}" x2="{WIDTH}" '
        f'y2="{HEIGHT - MARGIN}"/>',
        f'<line class="axis" x1="{MARGIN}" y1="0" x2="{MARGIN}" y2="{HEIGHT - MARGIN}"/>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}">latency, us</text>',
    ]
    for value in x.ticks():
        parts.append(f'<text x="{x(value):.1f}" y="{HEIGHT - MARGIN + 18}">{value:.4g}</text>')
    for value in y.ticks():
        parts.append(f'<text x="4" y="{y(value):.1f}">{value:.1%}</text>')
    if math.isfinite(limit_us):
        place = f"{x(limit_us):.1f}"
        parts.append(
            f'<line class="limit" x1="{place}" y1="0" x2="{place}" y2="{HEIGHT - MARGIN}"/>'
        )
    kept = {id(each) for each in front}
    for each in shown:
        kind = "front" if id(each) in kept else "trial"
        tip = html.escape(f"{each.accuracy:.2%}, {each.latency_us:.1f} us")
        parts.append(
            f'<circle class="{kind}" r="4" cx="{x(each.latency_us):.1f}" '
            f'cy="{y(each.accuracy):.1f}"><title>{tip}</title></circle>'
        )
    points = " ".join(f"{x(each.latency_us):.1f},{y(each.accuracy):.1f}" for each in front)
    parts.append(f'<polyline class="line" points="{points}"/>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


class _Axis:
    """Places of values between two ends."""

    def __init__(self, values: Sequence[float], start: float, stop: float) -> None:
        least, most = min(values), max(values)
        air = (most - least) * AIR or abs(most) * AIR or 1.0
        self.least, self.most = least - air, most + air
        self.start, self.stop = start, stop

    def __call__(self, value: float) -> float:
        share = (value - self.least) / (self.most - self.least)
        return self.start + share * (self.stop - self.start)

    def ticks(self) -> list[float]:
        step = (self.most - self.least) / TICKS
        return [self.least + step * (n + 0.5) for n in range(TICKS)]
