"""A default that was timed while the machine did something else is timed again."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.tuning.small_tasks import ChoiceBuilder, PretendedBench, made_up_task
from tvm_fusionx.tuning.allocation import Progress
from tvm_fusionx.tuning.bench import RUN_FAILED
from tvm_fusionx.tuning.second_timing import time_again


@pytest.mark.parametrize(("first", "kept"), [(2.0, 0.5), (0.25, 0.25)])
def test_the_shorter_time_is_kept(first: float, kept: float) -> None:
    progress = Progress(made_up_task(), first)
    builder: Any = ChoiceBuilder()
    bench: Any = PretendedBench(lambda choice: 0.5)
    time_again(progress, builder, bench)
    assert progress.default_seconds == kept


def test_a_failure_changes_nothing() -> None:
    builder: Any = ChoiceBuilder()
    bench: Any = PretendedBench(failures=lambda choice: RUN_FAILED)
    for seconds in (2.0, math.inf):
        progress = Progress(made_up_task(), seconds)
        time_again(progress, builder, bench)
        assert progress.default_seconds == seconds
    assert len(bench.ran) == 2


def test_what_cannot_be_built_again_is_not_run() -> None:
    progress = Progress(made_up_task(), 2.0)
    builder: Any = ChoiceBuilder(lambda choice: "pretended")
    bench: Any = PretendedBench(lambda choice: 0.5)
    time_again(progress, builder, bench)
    assert progress.default_seconds == 2.0
    assert not bench.ran
