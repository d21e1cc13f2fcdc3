"""Sides of a benchmark that are tuned first: ours and plain TVM, with one budget for each."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tvm_fusionx._tvm import cures
from tvm_fusionx.build.fused_build import build_fused
from tvm_fusionx.errors import InputError
from tvm_fusionx.report.bench import plain_tvm
from tvm_fusionx.report.bench.bench import TunedBuild
from tvm_fusionx.report.bench.kept_build import kept_library
from tvm_fusionx.threads import threads_in_use
from tvm_fusionx.tuning import plain_metaschedule
from tvm_fusionx.tuning.plain_metaschedule import tune_plain
from tvm_fusionx.tuning.tune import tune

PLAIN = "tvm-metaschedule"
OURS = "fusionx-tuned"
TUNED_SIDES = (PLAIN, OURS)

SECONDS = {"s": 1, "m": 60, "h": 3600}
_BUDGET = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[smh]?)")


@dataclass(frozen=True)
class TuningBudget:
    """What each tuned side may spend on one model: time, or candidates."""

    seconds: float | None = None
    trials: int | None = None

    @classmethod
    def parse(cls, text: str) -> TuningBudget:
        """Read a time such as ``180s``, ``3m`` or ``1h``, or a bare number of trials.

        Raises
        ------
        InputError
            It is neither.
        """
        match = _BUDGET.fullmatch(text.strip())
        number = float(match["number"]) if match else 0.0
        if match and number > 0:
            if match["unit"]:
                return cls(seconds=number * SECONDS[match["unit"]])
            if number.is_integer():
                return cls(trials=int(number))
        raise InputError(
            "tuning budget",
            expected="a time or a number of trials",
            found=repr(text),
            next_step="Write it like 180s, 3m, 1h, or 200 for as many trials.",
        )

    def to_json(self) -> dict[str, float | int]:
        """Return the budget under its name in the benchmark's schema."""
        if self.seconds is not None:
            return {"budget_s": self.seconds}
        return {"budget_trials": self.trials or 0}


def split_sides(
    vs: Sequence[str], budget: TuningBudget | None
) -> tuple[tuple[str, ...], dict[str, TunedBuild]]:
    """Tell the sides that are tuned from the others.

    Parameters
    ----------
    vs
        Sides by name, of ``SIDES`` and :data:`TUNED_SIDES`.
    budget
        Of each tuned side; where `vs` names none of them, a budget asks for both.

    Raises
    ------
    InputError
        `vs` names one, and there is no budget.
    """
    others = tuple(side for side in vs if side not in TUNED_SIDES)
    named = tuple(side for side in vs if side in TUNED_SIDES)
    if budget is None:
        if named:
            raise InputError(
                f"side {named[0]}",
                expected="a budget for tuning",
                found="none",
                next_step="Give --tuning-budget, as in --tuning-budget 10m.",
            )
        return others, {}
    return others, tuned_builds(budget, named or TUNED_SIDES)


def tuned_builds(budget: TuningBudget, sides: Sequence[str] = TUNED_SIDES) -> dict[str, TunedBuild]:
    """Return for each side the build that tunes the model first, for ``fx.bench(tuned=...)``.

    What TVM's tuner found in the same budget before is taken from where conversions are kept; ours
    is tuned each time, as it is our code that is measured.
    """
    builds: dict[str, TunedBuild] = {
        PLAIN: lambda mod, target, params, _, conversions: kept_library(
            conversions,
            PLAIN,
            mod,
            target,
            params,
            f"{budget.to_json()} {threads_in_use()}",
            (plain_metaschedule, plain_tvm, cures),
            lambda: _plain(mod, target, params, budget),
        ),
        OURS: lambda mod, target, params, inputs, _: _ours(mod, target, params, inputs, budget),
    }
    return {side: builds[side] for side in sides}


def _plain(
    mod: tvm.IRModule,
    target: tvm.target.Target,
    params: Mapping[str, Any],
    budget: TuningBudget,
) -> tuple[Any, dict[str, Any]]:
    found = tune_plain(
        mod,
        target,
        params,
        threads=threads_in_use(),
        seconds=budget.seconds,
        trials=budget.trials,
    )
    return found.library, {
        **budget.to_json(),
        "spent_s": found.seconds,
        "trials": found.trials,
        "failed": found.failed,
        "reached": found.reached,
        "tasks": found.tasks,
    }


def _ours(
    mod: tvm.IRModule,
    target: tvm.target.Target,
    params: Mapping[str, Any],
    inputs: Mapping[str, np.ndarray],
    budget: TuningBudget,
) -> tuple[Any, dict[str, Any]]:
    """Tune our blocks as ``fx.tune`` does, into records of this benchmark alone."""
    with tempfile.TemporaryDirectory(prefix="fusionx-tuned-") as folder:
        report = tune(
            mod,
            target,
            params,
            records=folder,
            inputs=inputs,
            budget_seconds=budget.seconds,
            trials=budget.trials,
        )
        library = build_fused(
            mod, target, params, folder if report.records is not None else None
        ).library
    return library, {
        **budget.to_json(),
        "spent_s": report.seconds,
        "trials": report.trials,
        "failed": sum(report.failures.values()),
        "reached": sum(result.trials > 0 for result in report.tasks),
        "tasks": len(report.tasks),
    }
