from __future__ import annotations

import dataclasses
import math
import sys

import numpy as np
import pytest

from tests.tuning.small_tasks import made_up_task, slowness
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.tuning.cost_model import LEAST_SAMPLES, CostModel, TaskFeatures

TASK = made_up_task()
FEATURES = TaskFeatures.of(TASK)


def _taught() -> CostModel:
    model = CostModel()
    for index in range(0, len(TASK.space), 3):
        choice = TASK.space.choice(index)
        model.add(FEATURES, choice, slowness(choice), slowness(TASK.space.default))
    return model


def test_nothing_is_known_of_few_samples() -> None:
    model = CostModel()
    for index in range(LEAST_SAMPLES - 1):
        model.add(FEATURES, TASK.space.choice(index), 1.0, 1.0)
    assert not model.knows(FEATURES)
    assert model.predict(FEATURES, [TASK.space.default]).tolist() == [0.0]


def test_it_tells_the_fast_from_the_slow() -> None:
    model = _taught()
    assert model.knows(FEATURES)
    assert not model.knows(dataclasses.replace(FEATURES, template="rows"))
    unseen = [TASK.space.choice(index) for index in range(1, len(TASK.space), 3)]
    scores = model.predict(FEATURES, unseen)
    taken = np.array([slowness(choice) for choice in unseen])
    assert np.corrcoef(scores, -np.log(taken))[0, 1] > 0.9


def test_blocks_of_other_knobs_teach_nothing_and_do_no_harm() -> None:
    model = _taught()
    other = dataclasses.replace(FEATURES, default={"lanes": 16}, most={"lanes": 64})
    assert not model.knows(other)
    for lanes in range(LEAST_SAMPLES):
        model.add(other, {"lanes": lanes}, 1.0 + lanes, 1.0)
    first, last = model.predict(other, [{"lanes": 0}, {"lanes": LEAST_SAMPLES - 1}])
    assert first > last
    assert model.predict(FEATURES, [TASK.space.default]).shape == (1,)


def test_a_knob_that_is_on_or_off_is_told_apart() -> None:
    switch = dataclasses.replace(FEATURES, default={"recompute": 0}, most={"recompute": 1})
    assert switch.row({"recompute": 0}) != switch.row({"recompute": 1})


def test_failures_score_below_everything() -> None:
    model = CostModel()
    for index in range(40):
        choice = TASK.space.choice(index)
        seconds = math.inf if choice["knob_0"] > 4 else 1.0
        model.add(FEATURES, choice, seconds, 1.0)
    bad, good = model.predict(FEATURES, [{"knob_0": 8}, {"knob_0": 2}])
    assert bad < good - 2


def test_what_a_product_of_knobs_decides_is_learned_from_few_samples() -> None:
    """A tile of more than twelve registers spills, whatever its shape."""
    knobs = {"rows": 3, "columns": 4}
    tile = dataclasses.replace(FEATURES, default=knobs, most={"rows": 8, "columns": 8})
    shapes = [{"rows": r, "columns": c} for r in range(1, 9) for c in range(1, 9)]
    spills = [shape["rows"] * shape["columns"] > 12 for shape in shapes]
    wrong = []
    for seed in range(8):
        model = CostModel()
        taught = np.random.default_rng(seed).permutation(len(shapes))[:16]
        for place in taught:
            model.add(tile, shapes[place], 4.0 if spills[place] else 1.0, 1.0)
        scores = model.predict(tile, shapes)
        wrong.append(sum((score < -1) != slow for score, slow in zip(scores, spills, strict=True)))
    assert np.mean(wrong) < 4


def test_a_blocks_default_is_a_sample_too() -> None:
    model = CostModel()
    for index in range(1, 40):
        model.add(FEATURES, TASK.space.choice(index), 4.0, 1.0)
    default, other = model.predict(FEATURES, [TASK.space.default, TASK.space.choice(41)])
    assert default > other


def test_features_survive_json() -> None:
    assert TaskFeatures.from_json(FEATURES.to_json() | {"event": "task"}) == FEATURES


def test_xgboost_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _taught()
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingDependencyError, match="tune"):
        model.predict(FEATURES, [TASK.space.default])
