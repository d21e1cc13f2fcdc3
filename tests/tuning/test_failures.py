from __future__ import annotations

from tests.tuning.small_tasks import made_up_task
from tvm_fusionx.tuning.build_candidates import INVALID
from tvm_fusionx.tuning.failures import Failures
from tvm_fusionx.tuning.outcome import Outcome

TASK = made_up_task("a")


def test_the_first_that_ran_is_the_cause() -> None:
    failures = Failures()
    failures.add(TASK, Outcome(failure=INVALID, detail="too wide"))
    failures.add(TASK, Outcome(failure="run", detail="no room"))
    failures.add(TASK, Outcome(failure="run", detail="no power"))
    assert dict(failures) == {INVALID: 1, "run": 2}
    assert str(failures) == "2 run, 1 invalid; the first: block a_0: run: no room"


def test_where_all_are_refused_the_first_refusal_is_the_cause() -> None:
    failures = Failures()
    failures.add(TASK, Outcome(failure=INVALID, detail="too wide"))
    failures.add(TASK, Outcome(failure=INVALID, detail="too high"))
    assert str(failures) == "2 invalid; the first: block a_0: invalid: too wide"
