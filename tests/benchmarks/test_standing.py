from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.scripts import script

runs = script("measured_runs")
standing = script("standing")


def a_result(**medians: float) -> dict[str, Any]:
    return {"latency_ms": {side: {"median": median} for side, median in medians.items()}}


def in_turns(**turns: list[float]) -> dict[str, Any]:
    rows = {side: {"median": float(np.median(each)), "turns": each} for side, each in turns.items()}
    return {"latency_ms": rows}


def summary_of(*results: dict[str, Any]) -> str:
    text: str = standing.summary(runs.MeasuredRun({}, results))
    return text


def test_the_best_other_runtime_is_neither_tvm_nor_ours() -> None:
    ours = {"fusionx": 2.0, "unfused": 0.5, "tvm": 1.0, "fusionx-tuned": 0.5}
    side, ratio = standing.best_peer(a_result(**ours, ort=4.0, mnn=3.0))
    assert (side, ratio.value) == ("mnn", 1.5)
    assert standing.best_peer(a_result(**ours)) is None


def test_a_side_that_computed_something_else_is_no_rival() -> None:
    result = a_result(fusionx=2.0, mnn=1.0, ort=4.0)
    result["rel_err"] = {"fusionx": 1e-6, "mnn": 0.3, "ort": 1e-6}
    side, ratio = standing.best_peer(result)
    assert (side, ratio.value) == ("ort", 2.0)


def test_where_ours_computed_something_else_it_is_first_nowhere() -> None:
    result = a_result(fusionx=1.0, tvm=4.0, ort=4.0)
    result["rel_err"] = {"fusionx": 0.5, "tvm": 1e-6, "ort": 1e-6}
    assert standing.best_peer(result) is None
    assert "fastest on 0 of 0 models;" in summary_of(result)


def test_a_machine_that_slows_down_in_the_middle_changes_no_ratio() -> None:
    machine = [1.0] * 6 + [3.0] * 5
    # In the even turns the machine is slow for the other side alone.
    ours = [10.0 * slow for slow in machine]
    theirs = [11.0 * slow * (1 + turn % 2 / 100) for turn, slow in enumerate(machine)]
    ratio = standing.ratio_to_ours(in_turns(fusionx=ours, ort=theirs), "ort")
    assert ratio.value == pytest.approx(1.1)
    assert (ratio.low, ratio.high) == pytest.approx((1.1, 1.111))


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    chance = np.random.default_rng(0)
    # Two level sides whose times are far from normal, in 300 runs of 25 turns.
    inside = 0
    for _ in range(300):
        ours, theirs = chance.lognormal(0, 0.3, (2, 25)).tolist()
        ratio = standing.ratio_to_ours(in_turns(fusionx=ours, ort=theirs), "ort")
        inside += ratio.low <= 1 <= ratio.high
    assert inside / 300 >= 0.93


def test_the_ratio_without_turns_is_that_of_the_medians() -> None:
    few = in_turns(fusionx=[1.0, 2.0], ort=[3.0, 4.0])
    for result, value in ((a_result(fusionx=2.0, ort=3.0), "1.50"), (few, "2.50")):
        ratio = standing.ratio_to_ours(result, "ort")
        assert not ratio.has_interval
        assert str(ratio) == value


def test_turns_that_do_not_belong_together_are_not_compared() -> None:
    result = in_turns(fusionx=[1.0] * 10, ort=[5.0] * 9)
    assert str(standing.ratio_to_ours(result, "ort")) == "5.00"


def test_the_summary_counts_and_averages() -> None:
    text = summary_of(
        a_result(fusionx=1.0, tvm=4.0, ort=2.0),
        a_result(fusionx=10.0, tvm=10.0, ort=5.0, mnn=20.0),
    )
    assert "fastest on 1 of 2 models;" in text
    assert "1.00 times as fast in the geometric mean" in text
    assert "2.00 times as fast as TVM's default" in text
    assert math.isnan(standing.geometric_mean([]))


def test_the_summary_tells_chance_apart() -> None:
    results = (
        in_turns(fusionx=[1.0] * 10, ort=[2.0] * 10),
        in_turns(fusionx=[1.0] * 10, ort=[0.5] * 10),
        in_turns(fusionx=[1.0] * 11, ort=[*[0.9, 1.1] * 5, 1.2]),
    )
    counted = "on 1 beyond chance, on 1 slower beyond chance, level on 1"
    assert f"fastest on 2 of 3 models ({counted});" in summary_of(*results)
    assert "chance" not in summary_of(*results, a_result(fusionx=1.0, ort=2.0))
