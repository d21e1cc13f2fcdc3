from __future__ import annotations

import itertools
import os
from types import SimpleNamespace
from typing import Any

import pytest

from tests.relay_modules import REASSOCIATING, assert_close, inputs_of
from tests.tuning.small_tasks import RESOLVED, small_model
from tvm_fusionx.errors import TuningError
from tvm_fusionx.report.bench.plain_tvm import build_plain, run_once
from tvm_fusionx.tuning import plain_metaschedule
from tvm_fusionx.tuning.plain_metaschedule import tune_plain


@pytest.mark.slow
def test_plain_tvm_is_tuned_within_a_budget_of_trials() -> None:
    mod = small_model()
    before = dict(os.environ)
    found = tune_plain(mod, RESOLVED, threads=1, trials=3)
    assert dict(os.environ) == before
    assert 1 <= found.trials <= 8
    assert 1 <= found.reached <= found.tasks == 3
    inputs = inputs_of(mod)
    assert_close(
        run_once(found.library, inputs), run_once(build_plain(mod, RESOLVED), inputs), REASSOCIATING
    )


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 2])
def test_a_budget_of_time_ends_after_the_round_that_it_is_spent_in(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(plain_metaschedule, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    found = tune_plain(small_model(), RESOLVED, threads=1, seconds=rounds + 0.5)
    # Rounds whose results nobody had asked for yet count as well.
    assert (found.reached, found.tasks) == (rounds, 3)
    assert found.trials > found.failed
    assert found.seconds == rounds + 2


@pytest.mark.slow
def test_finding_the_kernels_is_no_part_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    integration = plain_metaschedule.ms.relay_integration
    extract_tasks = integration.extract_tasks

    def extracted(*given: Any) -> Any:
        nonlocal now
        now += 1000
        return extract_tasks(*given)

    monkeypatch.setattr(integration, "extract_tasks", extracted)
    monkeypatch.setattr(plain_metaschedule, "time", SimpleNamespace(monotonic=lambda: now))
    found = tune_plain(small_model(), RESOLVED, threads=1, seconds=1, trials=3)
    assert now == 1000
    assert found.seconds == 0


@pytest.mark.slow
def test_where_no_candidate_can_be_built_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_metaschedule, "build_candidate", lambda *_: None)
    with pytest.raises(TuningError, match="failed in"):
        tune_plain(small_model(), RESOLVED, threads=1, seconds=0.1)
