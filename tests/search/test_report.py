from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.search.small_spaces import transformers
from tvm_fusionx.search.journal import Result
from tvm_fusionx.search.report import page, write_page

CANDIDATES = list(transformers().every())
RESULTS = [
    Result(CANDIDATES[0], accuracy=0.6, latency_us=10.0),
    Result(CANDIDATES[1], accuracy=0.7, latency_us=30.0),
    Result(CANDIDATES[2], accuracy=0.5, latency_us=20.0),
    Result(CANDIDATES[3], share=0.1, accuracy=0.9, latency_us=5.0),
    Result(CANDIDATES[4], latency_us=99.0, failure="slower <than> the limit"),
]


def _svg(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])


def test_every_whole_trial_is_a_point_and_the_front_a_line() -> None:
    drawn = _svg(page(RESULTS, title="t", limit_us=40.0))
    kinds = [each.get("class") for each in drawn.iter("circle")]
    assert sorted(kinds) == ["front", "front", "trial"]
    (line,) = drawn.iter("polyline")
    assert len(line.get("points", "").split()) == 2
    assert [each.get("class") for each in drawn.iter("line")].count("limit") == 1
    # Higher accuracy stands higher, longer latency further to the right.
    fast, slow = (each.split(",") for each in line.get("points", "").split())
    assert float(fast[0]) < float(slow[0])
    assert float(fast[1]) > float(slow[1])


def test_words_are_escaped_and_reasons_counted() -> None:
    text = page(RESULTS, title="<b>")
    assert "&lt;b&gt;" in text
    assert "1 not trained: slower &lt;than&gt; the limit" in text
    assert "5 networks judged, 3 trained whole, 2 on the front" in text


def test_a_page_without_trials_says_so(tmp_path: Path) -> None:
    write_page([], tmp_path / "page.html", title="t", limit_us=math.inf)
    assert "Nothing is trained yet" in (tmp_path / "page.html").read_text()


def test_one_point_has_a_place() -> None:
    assert len(list(_svg(page(RESULTS[:1], title="t")).iter("circle"))) == 1
