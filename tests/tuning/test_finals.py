from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm

from tests.tuning.small_tasks import ChoiceBuilder, PretendedBench, made_up_task, relu_task
from tvm_fusionx.errors import DeviceLostError
from tvm_fusionx.tuning import finals
from tvm_fusionx.tuning.allocation import Progress
from tvm_fusionx.tuning.finals import FOUND_EARLIER, decide_block, decide_model
from tvm_fusionx.tuning.settings import Settings

TASK = made_up_task()
BETTER = {"knob_0": 3, "knob_1": 3, "knob_2": 3}


def _session(best: list[dict[str, int]], trials: int = 8, default: float = 2e-3) -> Any:
    return SimpleNamespace(
        progresses={TASK.key: Progress(TASK, default, trials=trials)},
        best_choices=lambda task: best,
        builder=ChoiceBuilder(),
        benches=[PretendedBench()],
        settings=Settings(rounds=4),
    )


def _times(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    monkeypatch.setattr(finals, "compare_kernels", lambda *_: [(taken,) * 4 for taken in seconds])


def test_the_best_of_the_finalists_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    _times(monkeypatch, 2e-3, 1.5e-3, 1e-3)
    result = decide_block(_session([TASK.space.choice(1), BETTER]), TASK)
    assert result.is_better
    assert result.choice == BETTER
    assert result.seconds == pytest.approx(1e-3)


def test_what_an_earlier_session_found_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = TASK.space.choice(1)
    for times, winner in (((2e-3, 1e-3, 1.5e-3), earlier), ((2e-3, 1.5e-3, 1e-3), BETTER)):
        _times(monkeypatch, *times)
        result = decide_block(_session([BETTER]), TASK, earlier)
        assert result.choice == winner
        assert result.reason == (FOUND_EARLIER if winner == earlier else "")
    # Also where this one tried nothing, or found the same.
    _times(monkeypatch, 2e-3, 1e-3)
    assert decide_block(_session([], trials=0), TASK, earlier).choice == earlier
    assert decide_block(_session([earlier]), TASK, earlier).choice == earlier


def test_the_default_stays_where_it_is_as_fast_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    _times(monkeypatch, 2e-3, 2e-3)
    result = decide_block(_session([BETTER]), TASK)
    assert not result.is_better
    assert result.choice == TASK.space.default
    assert "no significant difference" in result.reason


@pytest.mark.parametrize(("in_turns", "kept"), [(1e-3, 1e-3), (3e-3, 2e-3)])
def test_the_least_time_of_a_default_is_told(
    monkeypatch: pytest.MonkeyPatch, in_turns: float, kept: float
) -> None:
    """What else ran when it was first timed, 2 ms, may have made it look slow."""
    _times(monkeypatch, in_turns, in_turns)
    assert decide_block(_session([BETTER]), TASK).seconds == pytest.approx(kept)


LOST = DeviceLostError("phone", expected="an answer", found="none", next_step="x.")


def _raising(error: Exception) -> Any:
    def fail(*_: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("error", [tvm.TVMError("out of memory"), OSError("no room")])
def test_a_comparison_that_fails_leaves_the_default(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(finals, "compare_kernels", _raising(error))
    result = decide_block(_session([BETTER]), TASK)
    assert result.choice == TASK.space.default
    assert f"the comparison failed: {error}" in result.reason


# TVM's own error of a connection that broke tells nothing: whether the device is there does.
@pytest.mark.parametrize("error", [LOST, tvm.TVMError("the connection broke")])
@pytest.mark.parametrize(
    ("compared", "decide"),
    [
        ("compare_kernels", lambda session: decide_block(session, TASK)),
        ("compare_models", lambda session: decide_model(session, [], {}, Path())),
    ],
)
def test_a_device_that_is_gone_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception, compared: str, decide: Any
) -> None:
    monkeypatch.setattr(finals, compared, _raising(error))
    session = _session([BETTER])
    session.benches[0].expect = _raising(LOST)
    with pytest.raises(DeviceLostError):
        decide(session)


@pytest.mark.parametrize(
    ("session", "reason"),
    [
        (_session([], trials=0), "not tried"),
        (_session([]), "no candidate was faster"),
        (_session([BETTER], default=math.inf), "cannot be measured"),
    ],
)
def test_why_a_default_stays(session: Any, reason: str) -> None:
    assert reason in decide_block(session, TASK).reason


def test_a_block_without_choices() -> None:
    task = relu_task()
    session = _session([])
    session.progresses[task.key] = Progress(task, 1.0)
    assert decide_block(session, task).reason == "nothing to choose"


@pytest.mark.parametrize(
    ("seconds", "outputs", "reason"),
    [
        (((2.0,) * 4, (1.0,) * 4), (1.0, 1.0), ""),
        (((1.0,) * 4, (2.0,) * 4), (1.0, 1.0), "slower than untuned: the default stays"),
        (((1.0,) * 4, (1.0,) * 4), (1.0, 1.0), "no significant difference to untuned"),
        (((2.0,) * 4, (1.0,) * 4), (1.0, 1.1), "output 0 differs"),
    ],
)
def test_the_whole_model_decides(
    monkeypatch: pytest.MonkeyPatch, seconds: Any, outputs: Any, reason: str
) -> None:
    arrays = [[np.full(3, value, "float32")] for value in outputs]
    monkeypatch.setattr(finals, "compare_models", lambda *_: (list(seconds), arrays))
    _, said = decide_model(_session([]), [], {}, Path())
    assert (reason in said) if reason else not said


def test_a_model_that_cannot_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finals, "compare_models", _raising(tvm.TVMError("out of memory")))
    comparison, said = decide_model(_session([]), [], {}, Path())
    assert comparison is None
    assert "the default stays" in said
