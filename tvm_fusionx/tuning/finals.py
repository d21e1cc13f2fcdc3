"""The end of a session: the best few in turns with the default, then the whole model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvm_fusionx.errors import DeviceError, DeviceLostError
from tvm_fusionx.tuning.arguments import why_wrong
from tvm_fusionx.tuning.bench import Bench
from tvm_fusionx.tuning.build_candidates import last_line
from tvm_fusionx.tuning.comparison import Comparison, compare_kernels, compare_models
from tvm_fusionx.tuning.report import TaskResult
from tvm_fusionx.tuning.session import Session
from tvm_fusionx.tuning.task import Choice, Task

# The whole model decides whether anything is kept: it is measured for this many times as long.
MODEL_ROUNDS = 3

FOUND_EARLIER = "found by an earlier session"


def decide_block(session: Session, task: Task, earlier: Choice | None = None) -> TaskResult:
    """Return the result of one block: its best candidates measured in turns with its default.

    `earlier` is what a session before this one found: it is one of them.

    Raises
    ------
    DeviceLostError
        The device stays away.
    """
    progress = session.progresses[task.key]
    default = task.space.default

    def kept(reason: str, comparison: Comparison | None = None) -> TaskResult:
        seconds = progress.default_seconds
        if comparison is not None:
            seconds = min(seconds, float(np.median(comparison.default)))
        return TaskResult(task, seconds, progress.trials, default, comparison, reason)

    if not math.isfinite(progress.default_seconds):
        return kept("the default cannot be measured")
    if earlier is None and not task.is_tunable:
        return kept("nothing to choose")
    if earlier is None and not progress.trials:
        return kept("not tried")
    found = [choice for choice in session.best_choices(task) if choice != earlier]
    finalists = found if earlier is None else [earlier, *found]
    if not finalists:
        return kept("no candidate was faster than the default")
    candidates = session.builder.build(task, [default, *finalists])
    built = [each for each in candidates if each.failure is None]
    if len(built) < 2 or built[0].choice != default:
        return kept("its best candidates cannot be built again")
    try:
        times = compare_kernels(
            session.benches[0],
            task,
            [each.path for each in built],
            session.settings.rounds,
            [each.images for each in built],
        )
    except DeviceLostError:
        raise
    except (DeviceError, tvm.TVMError, OSError) as error:
        _expect_back(session.benches[0])
        return kept(f"the comparison failed: {last_line(error)}")
    finally:
        for each in candidates:
            each.path.unlink(missing_ok=True)
    compared = [Comparison(times[0], other) for other in times[1:]]
    best = max(range(len(compared)), key=lambda index: compared[index].ratio)
    comparison = compared[best]
    if not comparison.is_better:
        return kept(f"{comparison.verdict} in turns with the default", comparison)
    measured = float(np.median(comparison.default))
    choice = built[best + 1].choice
    reason = FOUND_EARLIER if choice == earlier else ""
    return TaskResult(task, measured, progress.trials, choice, comparison, reason)


def decide_model(
    session: Session, factories: Sequence[Any], inputs: dict[str, np.ndarray], folder: Path
) -> tuple[Comparison | None, str]:
    """Measure the untuned and the tuned model in turns.

    Returns
    -------
    Comparison or None, str
        The comparison, and why the winners are not kept: empty where they are.

    Raises
    ------
    DeviceLostError
        The device stays away.
    """
    try:
        times, outputs = compare_models(
            session.benches[0],
            factories,
            inputs,
            folder,
            session.settings.rounds * MODEL_ROUNDS,
        )
    except DeviceLostError:
        raise
    except (DeviceError, tvm.TVMError, OSError) as error:
        _expect_back(session.benches[0])
        return None, f"the whole model cannot be compared ({last_line(error)}): the default stays"
    comparison = Comparison(*times)
    wrong = why_wrong(outputs[1], outputs[0])
    if wrong is not None:
        return comparison, f"the tuned model's {wrong}: the default stays"
    if not comparison.is_better:
        return comparison, f"{comparison.verdict} than untuned: the default stays".replace(
            "difference than untuned", "difference to untuned"
        )
    return comparison, ""


def _expect_back(bench: Bench) -> None:
    """Raise `DeviceLostError` where a comparison failed because the device is gone."""
    bench.drop()
    bench.expect()
