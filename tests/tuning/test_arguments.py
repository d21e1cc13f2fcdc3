from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import var
from tests.schedules.blocked_blocks import unscheduled
from tests.tuning.small_tasks import RESOLVED, dense_task
from tvm_fusionx.tuning.arguments import UNWRITTEN, arguments_of, why_wrong
from tvm_fusionx.tuning.task import make_task

ONES = np.ones((2, 3), "float32")


def test_the_same_values_each_time_and_outputs_marked() -> None:
    first, second = arguments_of(dense_task()), arguments_of(dense_task())
    for ours, theirs in zip(first, second, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (first[-1] == UNWRITTEN).all()
    assert first[0].min() >= 0.5
    assert first[0].std() > 0


def test_indices_are_valid() -> None:
    body = relay.take(var("x", 5, 8), var("i", 3, dtype="int64"), axis=0)
    task = make_task(unscheduled(body), "rows", RESOLVED)
    arrays = arguments_of(task)
    indices = next(array for array in arrays if array.dtype == "int64")
    assert not indices.any()


def test_equal_outputs_are_right() -> None:
    assert why_wrong([ONES], [ONES * (1 + 1e-7)]) is None


@pytest.mark.parametrize(
    "computed", [ONES * 1.01, np.where(np.eye(2, 3) > 0, UNWRITTEN, ONES), ONES * np.nan]
)
def test_other_outputs_are_wrong(computed: np.ndarray) -> None:
    assert "output 1" in str(why_wrong([ONES, computed.astype("float32")], [ONES, ONES]))
