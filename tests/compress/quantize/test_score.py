from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compress.quantize.small_networks import ENGINE, graph_of, pictures, residual
from tvm_fusionx.compress.quantize import score
from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.compress.quantize.score import DIVERGENCE, Judge, top1
from tvm_fusionx.errors import InputError


def _judge(metric: Any = None, validation: Any = None) -> Judge:
    graph = graph_of(residual())
    return Judge(graph.model, Samples(pictures(), graph.inputs), metric, validation, ENGINE)


def _shifted(by: float) -> Any:
    model = residual()
    (bias,) = [t for t in model.graph.initializer if list(t.dims) == [10]]
    values = np.frombuffer(bias.raw_data, "float32") + by
    bias.raw_data = values.astype("float32").tobytes()
    return model


def test_without_a_metric_squares_of_outputs_are_compared() -> None:
    judge = _judge()
    assert (judge.name, judge.is_metric, judge.float_score.value) == (DIVERGENCE, False, 0)
    assert judge.drop(judge.score(residual())) == 0
    shifted = judge.score(_shifted(0.1))
    from tvm_fusionx.compress.quantize.runner import runner

    outputs = [runner(residual(), ENGINE)(sample)[0] for sample in pictures()]
    expected = np.mean([0.01 * 10 / np.square(each).sum() for each in outputs])
    assert judge.drop(shifted) == pytest.approx(expected, rel=1e-3)


def test_masked_logits_are_the_same_and_lost_outputs_are_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outputs = iter([[-np.inf, 2.0], [-np.inf, 1.0], [-np.inf, np.nan]])

    def run(model: Any, engine: str) -> Any:
        values = np.array(next(outputs), "float32")
        return lambda sample: [values]

    monkeypatch.setattr(score, "runner", run)
    judge = _judge()
    assert judge.score(residual()).divergence == 1 / 4
    assert judge.score(residual()).divergence == score.LOST


def test_a_metric_takes_a_runner_and_the_validation_set() -> None:
    def first(run: Any, validation: Any) -> float:
        return float(np.mean([run(inputs)[0][0, 0] for inputs in validation]))

    judge = _judge(first, pictures(2))
    assert judge.name == "first"
    assert judge.drop(judge.score(_shifted(-0.5))) == pytest.approx(0.5, rel=1e-4)
    judge = _judge(lambda run: 3.0)
    assert judge.float_score.value == 3


def test_top1_counts_rows() -> None:
    logits = np.eye(4, dtype="float32")
    assert top1(lambda inputs: [logits], [({}, [0, 1, 2, 0]), ({}, [0, 1, 2, 3])]) == 7 / 8
    assert top1(lambda inputs: [logits[1]], [({}, 1)]) == 1


def test_bad_metrics_are_told() -> None:
    with pytest.raises(InputError, match="expected validation"):
        _judge("top1")
    with pytest.raises(InputError, match="metric 'f1'"):
        _judge("f1")
    with pytest.raises(InputError, match="expected a finite number"):
        _judge(lambda run: float("nan"))
