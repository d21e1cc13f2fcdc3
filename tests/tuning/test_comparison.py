from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tuning.small_tasks import LOCAL, RESOLVED, dense_task, small_model
from tvm_fusionx.build.fused_build import build_fused
from tvm_fusionx.devices import Device, open_session
from tvm_fusionx.inputs import inputs_of, random_inputs
from tvm_fusionx.tuning import bench as bench_module
from tvm_fusionx.tuning.bench import Bench, Timing
from tvm_fusionx.tuning.build_candidates import CandidateBuilder
from tvm_fusionx.tuning.comparison import (
    COMPARISON_SECONDS,
    Comparison,
    compare_kernels,
    compare_models,
    in_turns,
)

pytestmark = pytest.mark.slow

BRIEF = Timing(repeats=1, milliseconds=1)


def test_sides_take_turns_and_another_goes_first_each_time() -> None:
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return float(len(order))

    taken = in_turns([lambda: side("a"), lambda: side("b")], 3)
    assert "".join(order) == "abbaab"
    assert taken == [(1.0, 4.0, 5.0), (2.0, 3.0, 6.0)]


@pytest.mark.parametrize(
    ("default", "candidate", "verdict"),
    [
        ((2.0,) * 8, (1.0,) * 8, "faster"),
        ((1.0,) * 8, (2.0,) * 8, "slower"),
        ((1.0,) * 8, (0.999,) * 8, "no significant difference"),
        # Faster by far in five rounds of eight, slower in the others.
        ((2.0,) * 5 + (1.0,) * 3, (1.0,) * 5 + (1.1,) * 3, "no significant difference"),
        ((), (), "no significant difference"),
    ],
)
def test_verdicts(default: tuple[float, ...], candidate: tuple[float, ...], verdict: str) -> None:
    comparison = Comparison(default, candidate)
    assert comparison.verdict == verdict
    assert comparison.is_better == (verdict == "faster")


def test_the_spread_is_that_of_the_ratios() -> None:
    assert Comparison((2.0, 2.0), (1.0, 2.0)).spread == pytest.approx(0.5)
    assert Comparison((), ()).spread == 0.0


def test_kernels_are_measured_on_the_device(tmp_path: Path) -> None:
    task = dense_task()
    builder = CandidateBuilder(LOCAL, tmp_path, workers=0)
    made = builder.build(task, [task.space.default, task.space.default | {"tile_rows": 1}])
    with Bench(LOCAL, timing=BRIEF) as bench:
        times = compare_kernels(bench, task, [each.path for each in made], rounds=3)
    assert [len(each) for each in times] == [3, 3]
    assert all(taken > 0 for each in times for taken in each)


def test_a_comparison_has_a_session_of_its_own_with_time_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lasted: list[float] = []

    def opened(device: Device) -> Any:
        lasted.append(device.session_timeout_seconds)
        return open_session(device)

    monkeypatch.setattr(bench_module, "open_session", opened)
    task = dense_task()
    (made,) = CandidateBuilder(LOCAL, tmp_path, workers=0).build(task, [task.space.default])
    with Bench(LOCAL, timing=BRIEF) as bench:
        bench.session()
        compare_kernels(bench, task, [made.path], rounds=1)
        compare_kernels(bench, task, [made.path], rounds=1)
    assert lasted == [LOCAL.session_timeout_seconds, COMPARISON_SECONDS]


def test_whole_models_are_measured_on_the_device(tmp_path: Path) -> None:
    mod = small_model()
    library = build_fused(mod, RESOLVED).library
    inputs = random_inputs(inputs_of(mod))
    with Bench(LOCAL, timing=BRIEF) as bench:
        times, outputs = compare_models(bench, [library, library], inputs, tmp_path, rounds=2)
    assert [len(each) for each in times] == [2, 2]
    np.testing.assert_array_equal(outputs[0][0], outputs[1][0])
    assert np.isfinite(outputs[0][0]).all()
