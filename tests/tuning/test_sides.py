from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tvm_fusionx as fx
from tests.relay_modules import inputs_of
from tests.tuning.small_tasks import RESOLVED, small_model
from tvm_fusionx.errors import InputError
from tvm_fusionx.report.bench.plain_tvm import build_plain
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.tuning import sides
from tvm_fusionx.tuning.plain_metaschedule import PlainTuning
from tvm_fusionx.tuning.sides import TUNED_SIDES, TuningBudget, split_sides, tuned_builds

FACTS = {"spent_s", "trials", "failed", "tasks", "reached"}


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("180s", TuningBudget(seconds=180)),
        ("1.5 m", TuningBudget(seconds=90)),
        ("1h", TuningBudget(seconds=3600)),
        ("200", TuningBudget(trials=200)),
    ],
)
def test_a_budget_is_a_time_or_a_number_of_trials(text: str, budget: TuningBudget) -> None:
    assert TuningBudget.parse(text) == budget


@pytest.mark.parametrize("text", ["", "soon", "0", "0s", "1.5", "-3", "3d"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="tuning budget"):
        TuningBudget.parse(text)


def test_a_budget_asks_for_both_sides_unless_one_is_named() -> None:
    budget = TuningBudget(trials=1)
    others, tuned = split_sides(("tvm", "ort"), budget)
    assert others == ("tvm", "ort")
    assert tuple(tuned) == TUNED_SIDES
    others, tuned = split_sides(("tvm", "tvm-metaschedule"), budget)
    assert others == ("tvm",)
    assert tuple(tuned) == ("tvm-metaschedule",)
    assert split_sides(("tvm",), None) == (("tvm",), {})
    with pytest.raises(InputError, match="--tuning-budget"):
        split_sides(("fusionx-tuned",), None)


def test_both_sides_get_the_same_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def plain(*_: Any, seconds: float, trials: int | None, **__: Any) -> PlainTuning:
        given.append((seconds, trials))
        return PlainTuning("library", 5, 1, 3, 2, 61.0)

    class Report:
        records = None
        seconds = 60.0
        trials = 7
        failures = {"wrong": 2}  # noqa: RUF012
        tasks = ()

    def ours(*_: Any, budget_seconds: float, trials: int | None, **__: Any) -> Report:
        given.append((budget_seconds, trials))
        return Report()

    monkeypatch.setattr(sides, "tune_plain", plain)
    monkeypatch.setattr(sides, "tune", ours)
    builds = tuned_builds(TuningBudget(seconds=60))
    mod = small_model()
    found = {side: build(mod, RESOLVED, {}, {}, Conversions()) for side, build in builds.items()}
    assert given == [(60, None)] * 2
    assert found["tvm-metaschedule"][0] == "library"
    for _, facts in found.values():
        assert set(facts) == {*FACTS, "budget_s"}
    assert found["fusionx-tuned"][1]["failed"] == 2


def test_what_tvms_tuner_found_is_kept_for_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mod, tuned = small_model(), []

    def plain(*_: Any, trials: int, **__: Any) -> PlainTuning:
        tuned.append(trials)
        return PlainTuning(build_plain(mod, RESOLVED), trials, 0, 3, 2, 61.0)

    monkeypatch.setattr(sides, "tune_plain", plain)
    for trials in (5, 5, 6):
        conversions = Conversions(tmp_path)
        build = tuned_builds(TuningBudget(trials=trials))["tvm-metaschedule"]
        library, facts = build(mod, RESOLVED, {}, {}, conversions)
        assert facts["trials"] == trials
        assert library.get_graph_json()
    assert tuned == [5, 6]


@pytest.mark.slow
def test_ours_is_tuned_into_records_of_its_own() -> None:
    fx.threads(1)
    mod = small_model()
    build = tuned_builds(TuningBudget(trials=4))["fusionx-tuned"]
    library, facts = build(mod, RESOLVED, {}, inputs_of(mod), Conversions())
    assert library.get_graph_json()
    assert set(facts) == {*FACTS, "budget_trials"}
    assert facts["trials"] == 4
