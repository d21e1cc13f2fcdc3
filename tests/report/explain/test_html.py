from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.report.explain.explain import explain
from tvm_fusionx.report.explain.html import Section, render_page

VOID = {"meta", "input", "img", "link", "br"}
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
    drawing = report._drawing()
    owners = drawing["operators"]["owners"]
    assert len(drawing["positions"]) == len(report.blocks)
    assert len(owners) == len(drawing["operators"]["positions"]) == report.summary.operators
    assert len(drawing["operators"]["links"]) == len(report.edges)
    for number, block in enumerate(report.blocks):
        assert owners.count(number) == len(block.operators)
