from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.tuning.small_tasks import RESOLVED, made_up_task
from tvm_fusionx.tuning.autotvm_search import autotvm_task
from tvm_fusionx.tuning.tvm_tuners import (
    TENSOR_INTRINSICS,
    knob_cost_model,
    without_tensor_intrinsics,
)


def test_the_stand_in_goes_with_the_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, TENSOR_INTRINSICS, raising=False)
    with without_tensor_intrinsics():
        assert TENSOR_INTRINSICS in sys.modules
    assert TENSOR_INTRINSICS not in sys.modules


def test_intrinsics_that_are_loaded_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, TENSOR_INTRINSICS, sys)
    with without_tensor_intrinsics():
        assert sys.modules[TENSOR_INTRINSICS] is sys
    assert sys.modules[TENSOR_INTRINSICS] is sys


def test_the_cost_model_learns_from_knobs() -> None:
    model = knob_cost_model(autotvm_task(made_up_task(), RESOLVED))
    indexes = list(range(64))
    model.fit(indexes, [1.0 + index % 8 for index in indexes], 16)
    scores = model.predict(indexes)
    assert np.corrcoef(scores, [index % 8 for index in indexes])[0, 1] > 0.9
