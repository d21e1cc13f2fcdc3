from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.benchmarks.scripts import script

search_plots = script("search_plots")

REPORT: dict[str, Any] = {
    "searches": [
        {"arm": "tpe", "curve": [None, 90.0, 50.0]},
        {"arm": "tpe", "curve": [80.0, 80.0]},
        {"arm": "random", "curve": [None, None, 100.0]},
    ]
}


def test_bands_go_over_the_seeds() -> None:
    found = search_plots.bands(REPORT["searches"])
    assert found["tpe"] == [None, (80.0, 85.0, 90.0), (50.0, 65.0, 80.0)]
    assert found["random"] == [None, None, (100.0, 100.0, 100.0)]


def test_every_arm_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(REPORT))
    search_plots.main([str(tmp_path / "results.json"), str(tmp_path / "curves.svg")])
    root = ElementTree.parse(tmp_path / "curves.svg").getroot()
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"tpe", "random", "100", "50"} <= set(words)


def test_nothing_found_is_told() -> None:
    with pytest.raises(ValueError, match="found something"):
        search_plots.drawing({"searches": [{"arm": "tpe", "curve": [None]}]})
