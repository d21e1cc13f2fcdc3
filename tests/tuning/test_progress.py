from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from tests.tuning.small_tasks import made_up_task
from tvm_fusionx.tuning.allocation import Progress
from tvm_fusionx.tuning.peak import Peak
from tvm_fusionx.tuning.progress import TuningProgress, standing


def _session(**changes: Any) -> Any:
    progress = Progress(made_up_task(), 2e-3, best_seconds=1e-3)
    return SimpleNamespace(
        progresses={"k": progress},
        failures=Counter({"wrong result": 2, "timeout": 1}),
        peak=Peak(2e9, 1e9),
        spent_seconds=3.0,
        trials=5,
        **changes,
    )


def test_the_best_so_far_and_the_failures_by_kind() -> None:
    said = standing(_session())
    assert said == "blocks 2.00x, heaviest 1 GFLOP/s, 50% of peak, 2 wrong result, 1 timeout"


def test_nothing_timed_yet() -> None:
    session = _session()
    session.progresses = {}
    session.failures = Counter()
    assert standing(session) == "blocks not timed"


def test_the_bar_counts_trials_or_seconds() -> None:
    for budget, shown in ((None, 5), (60.0, 3.0)):
        with TuningProgress("tuning m", 10, budget, disable=False) as bar:
            bar("searching", None)
            bar("", _session())
            assert bar._bar.n == shown
            assert "2.00x" in str(bar._bar)
