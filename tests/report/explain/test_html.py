from __future__ import annotations

import html
import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_fusionx.report.explain.drawing import drawing_of, grouped, kernels_of
from tvm_fusionx.report.explain.explain import explain
from tvm_fusionx.report.explain.html import Section, breakable, render_page
from tvm_fusionx.report.explain.legend import mapping_type_sentences, reason_sentences
from tvm_fusionx.report.profile.profile import KernelTime, ProfileReport

VOID = {"meta", "input", "img", "link", "br", "wbr"}
HOSTILE = '</script><script>alert("x")</script>'

EMPTY = {
    "title": "page",
    "target": "llvm",
    "versions": {"tvm": "0.19.0"},
    "summary": {},
    "plan": "",
    "blocks": [],
    "edges": [],
    "reasons": [],
    "rewrites": [],
    "findings": [],
}


class Page(HTMLParser):
    """Reads a page: are its elements balanced, what does it load, and what data does it carry."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)


def read(report: dict[str, Any], *sections: Section) -> Page:
    drawing: dict[str, Any] = {"positions": [], "links": []}
    page = Page(render_page(report, drawing, sections))
    assert page.open == []
    return page


def test_the_page_loads_nothing() -> None:
    page = read(EMPTY, Section("picture", picture=b"\x89PNG"))
    assert page.loads == ["data:image/png;base64,iVBORw=="]
    text = render_page(EMPTY, {"positions": [], "links": []})
    assert "http://" not in text
    assert "https://" not in text


def test_names_from_the_model_cannot_leave_their_place() -> None:
    report = EMPTY | {
        "title": HOSTILE,
        "findings": [{"kind": "kind", "message": HOSTILE, "blocks": [HOSTILE]}],
        "reasons": [{"reason": HOSTILE, "edges": 1, "bytes": 4, "example": HOSTILE}],
        "blocks": [{"name": HOSTILE}],
    }
    page = read(report, Section(HOSTILE, header=[HOSTILE], rows=[[HOSTILE]], note=HOSTILE))
    data, program = page.scripts
    assert json.loads(data)["report"] == report
    assert "alert" not in program


def test_an_optimal_plan_says_so_in_the_heading() -> None:
    drawing: dict[str, Any] = {"positions": [], "links": []}
    assert "Optimal plan: 9 us" in render_page(EMPTY | {"plan": "9 us of 3 blocks"}, drawing)
    assert "Optimal plan" not in render_page(EMPTY, drawing)


def test_sections_stand_on_the_page() -> None:
    text = render_page(
        EMPTY,
        {"positions": [], "links": []},
        [Section("Latency", header=("engine", "ms"), rows=(("tvm", "1.5"),), note="median of 9")],
    )
    for part in ("<th>engine</th>", "<td>1.5</td>", "median of 9"):
        assert part in text


def test_operators_are_drawn_beside_blocks() -> None:
    """The page has both views' places, and every operator knows its block."""
    x = relay.var("x", shape=(64, 512))
    weight = relay.const(np.ones((512, 512), "float32"))
    mod = tvm.IRModule.from_expr(relay.nn.dense(relay.nn.relu(relay.nn.dense(x, weight)), weight))
    report = explain(mod, "llvm")
    drawing = drawing_of(report.blocks, report.edges)
    owners = drawing["operators"]["owners"]
    assert len(drawing["positions"]) == len(report.blocks)
    assert len(owners) == len(drawing["operators"]["positions"]) == report.summary.operators
    assert len(drawing["operators"]["links"]) == len(report.edges)
    for number, block in enumerate(report.blocks):
        assert owners.count(number) == len(block.operators)


def test_every_mapping_type_and_reason_is_explained_on_the_page() -> None:
    text = html.unescape(render_page(EMPTY, {"positions": [], "links": []}))
    for name, sentence in {**mapping_type_sentences(), **reason_sentences()}.items():
        assert f"{name}</dt><dd>{sentence}</dd>" in text


def test_free_reshapes_are_a_note_below_the_reasons() -> None:
    rows = [
        {"reason": name, "edges": count, "bytes": 4, "example": "/a -> /b"}
        for name, count in (("not-convex", 1), ("reshape-is-free", 48))
    ]
    text = render_page(EMPTY | {"reasons": rows}, {"positions": [], "links": []})
    assert 'data-search="not-convex"' in text
    assert "A path leaves the block and comes back to it." in text
    assert 'data-search="reshape-is-free"' not in text
    assert "48 more edges lead to or from reshapes" in text
    alone = render_page(EMPTY | {"reasons": rows[1:]}, {"positions": [], "links": []})
    assert "Every edge between two kernels was fused." in alone


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/model/layer.0", "/<wbr>model/<wbr>layer.<wbr>0"),
        ("a -> b: c", "a -&gt; b: c"),
        ("<b>_x", "&lt;b&gt;_<wbr>x"),
        ("plain", "plain"),
    ],
)
def test_long_names_may_break_where_a_part_ends(text: str, expected: str) -> None:
    assert breakable(text) == expected


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no browser here")
def test_a_browser_shows_equal_blocks_as_one_row_and_their_share_of_time(tmp_path: Path) -> None:
    value = relay.var("x", shape=(128, 384))
    weight = relay.const(np.ones((384, 384), "float32"))
    for _ in range(3):
        value = relay.nn.relu(relay.nn.dense(value, weight))
    report = explain(tvm.IRModule.from_expr(relay.exp(value)), "llvm")
    kernels = kernels_of(report.blocks)
    (equal,) = [places for places in grouped(kernels) if len(places) > 1]
    times = tuple(KernelTime(b.name, (), "", 0.1, 1 / len(kernels), None, 1.0) for b in kernels)
    report.with_profile(ProfileReport(times, 0.5)).save_html(tmp_path / "page.html")
    shown = subprocess.run(
        [
            str(CHROMIUM),
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=390,844"),
            *(f"--user-data-dir={tmp_path}", "--virtual-time-budget=2000", "--dump-dom"),
            (tmp_path / "page.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    assert 'data-ready="true"' in shown, "the script did not come to its end"
    assert shown.count('role="option"') == len(grouped(kernels))
    assert f"<b>\N{MULTIPLICATION SIGN}{len(equal)}</b>" in shown
    assert f"{100 * len(equal) / len(kernels):.1f} % of time" in shown
