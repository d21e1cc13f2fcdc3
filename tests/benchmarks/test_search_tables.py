from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.scripts import script

search_tables = script("search_tables")

ARM: dict[str, Any] = {
    "area": 1.5,
    "test_area": 1.25,
    "area_above": {"0": 4.5, "0.75": 0.25},
    "seeds": [{"test_area": 1.25, "trainings": 8}, {"test_area": 1.125, "trainings": 9}],
}
IMAGES: dict[str, Any] = {
    "candidates": 77,
    "device": "count:cortex-a76",
    "trials": 8,
    "steps": 60,
    "images": 3000,
    "floor": 0.55,
    "arms": {"caps": ARM},
}
LATENCY: dict[str, Any] = {
    "architectures": 9,
    "measured": 8,
    "device": "local",
    "median_error": 0.0123,
    "error_of_90_percent": 0.03,
    "largest_error": 0.5,
    "rank_correlation": 0.99,
    "rank_correlation_of_operations": 0.9,
}


def test_the_page_is_of_the_files() -> None:
    # Made again by: python benchmarks/search_tables.py
    assert search_tables.PAGE.read_text(encoding="utf-8") == search_tables.page()


def test_what_was_not_run_is_not_told(tmp_path: Path) -> None:
    assert "##" not in search_tables.page(tmp_path)
    (tmp_path / "search_images.json").write_text(json.dumps(IMAGES))
    (tmp_path / "search_latency.json").write_text(json.dumps(LATENCY))
    text = search_tables.page(tmp_path)
    assert text.count("##") == 2
    assert "| caps | 1.500 | 1.250 | 1.250, 1.125 | 4.500 | 0.250 | 8, 9 |" in text
    assert "| above 0% | above 75% | trainings |" in text
    assert "of chance" not in text
    assert "accuracy above 55% over doublings" in text
    assert "| 8 of 9 | 1.23% | 3.00% | 50.00% | 0.9900 | 0.9000 |" in text


@pytest.mark.parametrize(
    ("device", "told"),
    [
        ("local", "local"),
        ("Setting(target='llvm', device='a core, counted', n=1)", "a core, counted"),
    ],
)
def test_a_setting_is_told_by_its_device(device: str, told: str) -> None:
    assert search_tables.device_of({"device": device}) == told


def test_a_curve_that_ended_keeps_its_best() -> None:
    assert search_tables._best_of([[None, 5.0, 4.0], [None, None]], 2) == "5, -"
    assert search_tables._best_of([[None, 5.0, 4.0], [None, None]], 40) == "4, -"


def test_what_is_to_be_known_of_a_run_is_told(tmp_path: Path) -> None:
    noted = {**IMAGES, "note": "Begun by networks of chance."}
    (tmp_path / "search_images.json").write_text(json.dumps(noted))
    assert search_tables.page(tmp_path).endswith("Begun by networks of chance.\n")
