from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.scripts import script

templates = script("templates")
KEYS = ("one", "other")


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keep what is measured, in order, in place of measuring it."""
    told: list[str] = []
    (tmp_path / templates.CHOSEN).write_text(json.dumps([{"key": key} for key in KEYS]))

    class Rates:
        def __init__(self, number: int) -> None:
            self.number = number

        def to_json(self) -> dict[str, int]:
            return {"number": self.number}

        @classmethod
        def from_json(cls, fields: dict[str, int]) -> Rates:
            return cls(fields["number"])

        def best_of(self, other: Rates) -> Rates:
            return max(self, other, key=lambda each: each.number)

    def measure(*_: Any) -> Rates:
        told.append("machine")
        return Rates(len(told))

    def timed(row: dict[str, Any], *_: Any) -> None:
        told.append(row["key"])
        row["us_each"].append(1.0)

    monkeypatch.setattr(templates, "MachineRates", Rates)
    monkeypatch.setattr(templates, "measure_rates", measure)
    monkeypatch.setattr(templates, "timed", timed)
    monkeypatch.setattr(templates, "described", lambda row, *_: {**row, "us_each": []})
    monkeypatch.setattr(templates, "is_built", lambda *_: True)
    return told


def test_the_machine_is_measured_once_a_round_as_the_blocks_are(
    events: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "templates.json"
    assert templates.go_on(tmp_path, path, float("inf"), {}) == 0
    assert events == ["machine", *KEYS] * templates.ROUNDS
    run = json.loads(path.read_text())
    assert len(run["rates_each"]) == templates.ROUNDS
    assert run["rates"] == run["rates_each"][-1]


def test_what_is_measured_already_is_not_again(events: list[str], tmp_path: Path) -> None:
    path = tmp_path / "templates.json"
    templates.go_on(tmp_path, path, float("inf"), {})
    before = list(events)
    assert templates.go_on(tmp_path, path, float("inf"), {}) == 0
    assert events == before
