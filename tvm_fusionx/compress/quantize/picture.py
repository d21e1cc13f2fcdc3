"""The trade-off as SVG: how many layers are integers, and what that costs, for each trial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

# Points of the drawing.
WIDTH, HEIGHT, MARGIN, LINE, DOT = 720, 420, 70, 18, 5
GRID_LINES = 4
# Wong's colours, which differ to every eye (Nature Methods 8, 441).
TRIAL, CHOSEN, LIMIT = "#999999", "#009e73", "#d55e00"
# What costs more than so many times the bound is drawn at the upper edge: it would press all that
# matters to the bottom.
SHOWN_BOUNDS = 4

Point = tuple[int, float]


def trade_off_picture(
    trials: Sequence[Point], chosen: Point, layers: int, max_drop: float, title: str
) -> str:
    """Return an SVG: layers in integers from left to right, what they cost from the bottom up.

    Parameters
    ----------
    trials
        Layers in integers and drop of each model that was scored; the one in float is added.
    chosen
        The same of the model that is given back.
    layers
        All that could be integers.
    max_drop
        A dashed line; infinite for none.
    """
    points = sorted({(0, 0.0), *trials, chosen})
    least = min(drop for _, drop in points)
    most = max(drop for _, drop in points)
    if math.isfinite(max_drop):
        most = max(max_drop, min(most, SHOWN_BOUNDS * max_drop))
    # Nothing cost anything: the axis still has two ends.
    span = most - least or 1.0

    def across(count: int) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * count / max(1, layers)

    def up(drop: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (min(drop, most) - least) / span

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{MARGIN}" y="{MARGIN / 2:g}">{escape(title)}</text>',
    ]
    for line in range(GRID_LINES + 1):
        drop = least + span * line / GRID_LINES
        parts.append(
            f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{up(drop):g}" y2="{up(drop):g}" '
            'stroke="#dddddd"/>'
            f'<text x="{MARGIN - 4}" y="{up(drop) + 4:g}" text-anchor="end">{drop:.3g}</text>'
        )
    if math.isfinite(max_drop):
        parts.append(
            f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{up(max_drop):g}" '
            f'y2="{up(max_drop):g}" stroke="{LIMIT}" stroke-dasharray="4 4"/>'
            f'<text x="{WIDTH - MARGIN}" y="{up(max_drop) - 4:g}" text-anchor="end" '
            f'fill="{LIMIT}">{max_drop:g} allowed</text>'
        )
    # The one that is given lies above the others.
    for point in [each for each in points if each != chosen] + [chosen]:
        count, drop = point
        about = f"{count} of {layers} layers in integers: costs {drop:.3g}"
        colour = CHOSEN if point == chosen else TRIAL
        # Hollow where it lies beyond the edge.
        fill = "white" if drop > most else colour
        parts.append(
            f'<circle cx="{across(count):g}" cy="{up(drop):g}" r="{DOT}" fill="{fill}" '
            f'stroke="{colour}"><title>{escape(about)}</title></circle>'
        )
    parts.append(
        f'<text x="{WIDTH / 2:g}" y="{HEIGHT - MARGIN + 2 * LINE:g}" text-anchor="middle">'
        f"layers in integers, of {layers}; green: the model that is given; "
        "hollow: costs more than is drawn</text></svg>"
    )
    return "\n".join(parts) + "\n"
