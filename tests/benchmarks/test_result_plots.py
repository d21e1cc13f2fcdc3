"""The bars of a run: each bears its value, and no words meet."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from tests.benchmarks.scripts import script

runs, plots = script("measured_runs"), script("result_plots")

SVG = "{http://www.w3.org/2000/svg}"

MEDIANS = {"fusionx": 0.1234, "tvm": 8.8, "ort": 99.96, "mnn": 1234.5}


@pytest.fixture
def bars() -> Any:
    latency = {side: {"median": median} for side, median in MEDIANS.items()}
    run = runs.MeasuredRun({}, ({"model": "net", "latency_ms": latency},))
    return ElementTree.fromstring(plots.latency_bars(run))


def _values(bars: Any) -> list[Any]:
    return [text for text in bars.iter(f"{SVG}text") if text.get("class") == "value"]


def test_a_bar_bears_its_value_with_three_digits(bars: Any) -> None:
    assert [value.text for value in _values(bars)] == ["0.123", "8.80", "100", "1234"]


def test_a_value_stands_behind_its_bar_and_inside_of_the_picture(bars: Any) -> None:
    ends = [
        float(bar.get("x", "")) + float(bar.get("width", ""))
        for bar in bars.iter(f"{SVG}rect")
        if bar.find(f"{SVG}title") is not None
    ]
    starts = [float(value.get("x", "")) for value in _values(bars)]
    assert len(ends) == len(starts) == len(MEDIANS)
    assert all(end < start for end, start in zip(ends, starts, strict=True))
    assert max(starts) + plots.VALUE <= plots.WIDTH


def test_a_name_of_the_legend_ends_before_the_next_square() -> None:
    sides = list(plots.COLOURS)
    parts, top = plots._legend(sides)
    legend = ElementTree.fromstring(plots._svg(top, parts))
    squares = [
        (float(each.get("y", "")), float(each.get("x", ""))) for each in legend.iter(f"{SVG}rect")
    ]
    assert len(squares) == len(sides)
    for side, (line, start), (next_line, following) in zip(
        sides, squares, [*squares[1:], (top, 0.0)], strict=True
    ):
        end = start + plots.SQUARE + plots.LETTER * len(runs.SIDES[side])
        assert end < (following if next_line == line else plots.WIDTH)
        assert line < top


def test_lines_and_words_take_the_colours_of_the_page(bars: Any) -> None:
    lines = list(bars.iter(f"{SVG}line"))
    assert lines
    assert {line.get("class") for line in lines} == {"grid"}
    assert all(text.get("fill") is None for text in bars.iter(f"{SVG}text"))
