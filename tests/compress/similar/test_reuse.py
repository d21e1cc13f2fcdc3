"""Choices on a calibration set: what pays is taken, a guard holds the accuracy, reasons told."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx import helper

import tvm_fusionx as fx
from tests.reuse_models import CHOICES, images, network
from tvm_fusionx.compress.quantize.runner import OWN, runner
from tvm_fusionx.compress.similar.reuse import with_choices
from tvm_fusionx.compress.similar.reused_model import COMPUTES, REUSES, ReusedModel
from tvm_fusionx.errors import InputError, ModelError, TargetError
from tvm_fusionx.reuse.choice import ATTRIBUTE, choices_of_text

SAMPLES = [images(seed=seed) for seed in range(3)]


@cache
def _whole() -> ReusedModel:
    """Return the network with every layer that can reuse products: none is held back."""
    return fx.compress.reuse(network(), SAMPLES, least_gain=0, max_error=1e9, max_drop=1e9)


def test_every_layer_reuses_where_nothing_holds_it_back() -> None:
    made = _whole()
    assert {row.name: row.done for row in made.layers} == dict.fromkeys(
        ("conv1", "conv2", "fc", "fc2"), REUSES
    )
    (told,) = (prop.value for prop in made.model.metadata_props if prop.key == ATTRIBUTE)
    assert choices_of_text(told) == dict(made.choices)
    for row in made.layers:
        assert row.saved is not None
        assert 0 <= row.saved < 1
        assert row.hashing == pytest.approx(made.choices[row.name].bits / (row.channels or 0))


def test_what_is_told_is_what_the_built_model_does() -> None:
    made = _whole()
    exact, reused = (runner(model, OWN) for model in (network(), made.model))
    moved = []
    for sample in SAMPLES:
        truth, found = exact({"x": sample})[0], reused({"x": sample})[0]
        moved.append(np.square(found - truth).sum() / np.square(truth).sum())
    assert made.divergence == pytest.approx(np.mean(moved), rel=1e-4)
    assert made.drop == pytest.approx(made.divergence)
    assert made.divergence > 0


@pytest.mark.slow
def test_calls_share_clusters_of_the_calibration_set() -> None:
    made = fx.compress.reuse(
        network(), SAMPLES, least_gain=0, max_error=1e9, max_drop=1e9, across_calls=True
    )
    assert {choice.kept is None for choice in made.choices.values()} == {False}
    (told,) = (prop.value for prop in made.model.metadata_props if prop.key == ATTRIBUTE)
    assert choices_of_text(told) == dict(made.choices)
    exact, reused = (runner(model, OWN) for model in (network(), made.model))
    # A result does not depend on the calls before it.
    before = reused({"x": SAMPLES[0]})[0].copy()
    reused({"x": SAMPLES[2]})
    assert (reused({"x": SAMPLES[0]})[0] == before).all()
    truth = exact({"x": SAMPLES[0]})[0]
    moved = np.square(before - truth).sum() / np.square(truth).sum()
    assert 0 < moved < 0.5
    assert all(row.saved is not None for row in made.layers)


def test_across_calls_wants_samples_to_judge_by() -> None:
    with pytest.raises(InputError, match="two samples at least"):
        fx.compress.reuse(network(), SAMPLES[:1], across_calls=True)
    with pytest.raises(InputError, match="one of them"):
        fx.compress.reuse(network(), SAMPLES, across_calls=True, per_batch=True)


@pytest.mark.slow
def test_the_guard_gives_back_what_costs_too_much() -> None:
    asked: list[int] = []

    def metric(run: Any) -> float:
        """Say that the second convolution must not move the outputs."""
        asked.append(1)
        return -float(np.abs(run({"x": SAMPLES[0]})[0] - TRUTH).max())

    made = fx.compress.reuse(
        network(), SAMPLES, metric=metric, least_gain=0, max_error=1e9, max_drop=0.0
    )
    assert made.drop <= 0.0
    assert len(asked) == made.trials + 1
    held = [row for row in made.layers if row.done == COMPUTES]
    assert held
    assert all("kept by the guard: alone it costs" in row.reason for row in held)
    assert set(made.choices) == {row.name for row in made.layers} - {row.name for row in held}


TRUTH = runner(network(), "onnxruntime")({"x": SAMPLES[0]})[0]


def test_what_gains_nothing_stays_and_says_why() -> None:
    made = fx.compress.reuse(network(), SAMPLES, least_gain=100.0)
    assert not made.choices
    assert made.drop == 0
    assert all("hashing takes too long" in row.reason for row in made.layers)
    assert not [prop for prop in made.model.metadata_props if prop.key == ATTRIBUTE]
    assert "0 of 4 layers reuse products" in made.text()


def test_rows_that_are_not_similar_stay() -> None:
    draw = np.random.default_rng(0)
    noise = [draw.standard_normal((2, 3, 12, 12)).astype("float32") for _ in range(2)]
    made = fx.compress.reuse(network(), noise, least_gain=0, max_error=1e-6, max_drop=1e9)
    reasons = {row.name: row.reason for row in made.layers}
    assert "its rows are not similar" in reasons["conv2"]


def test_choices_of_a_file_are_replaced() -> None:
    first = with_choices(network(), CHOICES, CHOICES)
    second = with_choices(first, CHOICES, ["fc"])
    told = [prop.value for prop in second.metadata_props if prop.key == ATTRIBUTE]
    assert [list(choices_of_text(text)) for text in told] == [["fc"]]


@pytest.mark.parametrize(
    ("more", "error", "told"),
    [
        ({"target": "opencl"}, TargetError, "a CPU"),
        ({"least_gain": -1.0}, InputError, "least_gain"),
        ({"max_error": float("nan")}, InputError, "max_error"),
        ({"representative": "median"}, InputError, "representative"),
        ({"max_drop": -1.0}, InputError, "max_drop"),
    ],
)
def test_wrong_choices_are_refused(more: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        fx.compress.reuse(network(), SAMPLES, **{"least_gain": 100.0, **more})


def test_a_model_without_products_is_refused() -> None:
    model = network()
    del model.graph.node[1:]
    model.graph.node[0].CopyFrom(helper.make_node("Relu", ["x"], ["y"], "only"))
    model.graph.output[0].type.tensor_type.shape.Clear()
    with pytest.raises(ModelError, match="nothing to reuse"):
        fx.compress.reuse(model, SAMPLES)
