"""Choose the layers of a model that reuse products, and how, so that it stays good enough.

Each layer is looked at on the calibration set: for each length of a segment and number of bits, how
many products are left, how far its results move, and what it should cost. A way that should gain
enough goes before the guard, which builds and scores whole models: what the metric bears stays.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np
import onnx

from tvm_fusionx.compress.quantize.calibrate import Stage
from tvm_fusionx.compress.quantize.guard import guard
from tvm_fusionx.compress.quantize.journal import TrialJournal
from tvm_fusionx.compress.quantize.model_graph import ModelGraph, with_outputs
from tvm_fusionx.compress.quantize.prepare import prepared_graph
from tvm_fusionx.compress.quantize.runner import OWN, default_engine, runner
from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.compress.quantize.score import Judge, Metric
from tvm_fusionx.compress.similar.candidates import Candidate, best_of, candidates_of, most_gain
from tvm_fusionx.compress.similar.layers import Layer, find_layers
from tvm_fusionx.compress.similar.reused_model import ReusedModel, row_of
from tvm_fusionx.errors import InputError, ModelError, TargetError
from tvm_fusionx.frontend.read_model import ModelSource
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.reuse.choice import ATTRIBUTE, FIRST, MEAN, Choice, choices_text
from tvm_fusionx.schedules import resolve_target

logger = logging.getLogger(__name__)

# It must win clearly: the estimate knows no misses of the table, nor of branches.
LEAST_GAIN = 1.15

# How far the results of one layer may move, relative to them.
MAX_ERROR = 0.15

# Samples on which layers are looked at; the guard scores whole models on more.
LOOKED_AT = 4
# Where calls share clusters: those of half of them, judged on the others.
LOOKED_AT_FOR_CALLS = 16

TARGET = "llvm -mcpu=native"


def reuse(
    model: ModelSource,
    calibration: Any,
    *,
    metric: Metric | str | None = None,
    validation: Iterable[Any] | None = None,
    max_drop: float = 0.01,
    target: Any = TARGET,
    least_gain: float = LEAST_GAIN,
    max_error: float = MAX_ERROR,
    representative: str = MEAN,
    per_batch: bool = False,
    across_calls: bool = False,
    samples: int | None = None,
    engine: str | None = None,
    seed: int = 0,
    on_stage: Stage | None = None,
) -> ReusedModel:
    """Return a model whose layers share products of similar rows, where that pays and is borne.

    Deep reuse (Ning and Shen, ICS 2019): rows of the unfolded input are cut in segments, segments
    are hashed by the signs of random projections, and those of one code share one product. The
    result is approximate by nature; what it costs is measured, and bounded by `max_drop`.

    Parameters
    ----------
    model
        A path, the bytes of a file, or a loaded model: float32, not changed.
    calibration
        Inputs as they come in use: as for :func:`tvm_fusionx.quantize`.
    metric, validation
        What is to be kept, as there: None takes how far the outputs move.
    max_drop
        What the model may lose, in the metric's unit; of outputs, of their squares.
    target
        What costs are estimated for. Models are built and scored on this machine.
    least_gain
        How many times faster a layer should be, by the estimate; 0 takes the fastest way of every
        layer, to see what reuse does where it does not pay.
    max_error
        How far the results of one layer may move, relative to them.
    representative
        ``"mean"`` of a cluster, or its ``"first"`` segment, which costs less and errs more.
    per_batch
        Whether images of a batch share clusters: an image's result then depends on the others.
    across_calls
        Whether calls share clusters: those of the calibration set, whose products become constants
        of the program. Nothing is multiplied then but segments that are like none of them.
    samples
        Use only the first so many of the calibration set.
    engine
        What runs the exact model to see the layers' inputs: ``"onnxruntime"`` or ``"fusionx"``.
    seed
        Of the projections.
    on_stage
        Told what is being done, in words.

    Returns
    -------
    ReusedModel
        ``.model``, ``.save(path)``, and ``.text()``: a table of the layers.

    Raises
    ------
    ModelError, InputError, TargetError
        The model is no float32 model or has no product with constant weights; the calibration set,
        metric, engine or a number is none; the target is no CPU.
    """
    stage: Stage = logger.debug if on_stage is None else on_stage
    _check(least_gain, max_error, representative)
    if across_calls and per_batch:
        raise InputError(
            "across_calls and per_batch",
            expected="one of them",
            found="both",
            next_step="Clusters that calls share are shared by the images of a batch too.",
        )
    resolved = resolve_target(target)
    if not is_cpu(resolved):
        raise TargetError(
            "reuse",
            expected="a CPU as the target: the kernels that hash are written for those",
            found=str(resolved),
            next_step="Give a target such as 'llvm -mcpu=native'.",
        )
    cpu = describe_cpu(resolved)
    stage("reading")
    graph = prepared_graph(model)
    inputs = Samples(calibration, graph.inputs, samples)
    shape = {name: tuple(array.shape) for name, array in next(iter(inputs)).items()}
    layers = find_layers(graph, shape, resolved, cpu)
    if not layers:
        raise ModelError(
            f"model {graph.model.graph.name!r}",
            expected="convolutions or matrix products with constant weights",
            found="none",
            next_step="There is nothing to reuse in it.",
        )
    if across_calls and len(list(islice(inputs, 2))) < 2:
        raise InputError(
            "the calibration set",
            expected="two samples at least: clusters of some are judged on others",
            found="one",
            next_step="Give more samples, or leave across_calls out.",
        )
    count = LOOKED_AT_FOR_CALLS if across_calls else LOOKED_AT
    seen = layer_inputs(graph, layers, inputs, engine or default_engine(), stage, count)
    found: dict[str, Candidate] = {}
    reasons: dict[str, str] = {}
    for number, layer in enumerate(layers):
        stage(f"similarity of rows, layer {number + 1} of {len(layers)}")
        if layer.reason is not None:
            reasons[layer.name] = layer.reason
            continue
        tried = candidates_of(
            layer,
            seen[layer.tensor],
            cpu,
            per_batch=per_batch,
            representative=representative,
            least_gain=least_gain,
            seed=seed,
            across_calls=across_calls,
        )
        best = best_of(tried, max_error)
        if best is None:
            most = most_gain(layer, cpu)
            reasons[layer.name] = f"hashing takes too long: without any product {most:.2f} times"
            continue
        found[layer.name] = best
        reason = _why_not(best, least_gain, max_error)
        if reason is not None:
            reasons[layer.name] = reason
    names = [name for name in found if name not in reasons]
    choices = {name: found[name].choice for name in names}
    stage("scoring the exact model")
    judge = Judge(graph.model, inputs, metric, validation, OWN)
    trials = TrialJournal(None, "")
    done = guard(
        names,
        lambda active: with_choices(graph.model, choices, active),
        judge,
        trials,
        max_drop=max_drop,
        on_stage=stage,
        words=("that reuse", "that compute all"),
    )
    for name in set(names) - done.active:
        alone = done.alone.get(name)
        told = "" if alone is None else f": alone it costs {judge.drop(alone):.2e}"
        reasons[name] = f"kept by the guard{told}"
    drops = {name: judge.drop(score) for name, score in done.alone.items()}
    rows = [
        row_of(layer.name, reasons.get(layer.name), found.get(layer.name), drops.get(layer.name))
        for layer in layers
    ]
    return ReusedModel(
        with_choices(graph.model, choices, done.active),
        {name: choices[name] for name in names if name in done.active},
        tuple(rows),
        judge.name,
        judge.float_score.value,
        done.score.value,
        done.score.divergence,
        judge.drop(done.score),
        max_drop,
        done.trials,
        str(target),
    )


def with_choices(model: Any, choices: Mapping[str, Choice], active: Collection[str]) -> Any:
    """Return a model whose property has the choices of some layers; none where there are none."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    kept = [prop for prop in model.metadata_props if prop.key != ATTRIBUTE]
    del changed.metadata_props[:]
    changed.metadata_props.extend(kept)
    taken = {name: choice for name, choice in choices.items() if name in active}
    if taken:
        changed.metadata_props.add(key=ATTRIBUTE, value=choices_text(taken))
    return changed


def _why_not(candidate: Candidate, least_gain: float, max_error: float) -> str | None:
    if candidate.error > max_error:
        return (
            f"its rows are not similar: the best way moves its results by {candidate.error:.2f},"
            f" more than {max_error}"
        )
    if candidate.gain < least_gain:
        return (
            f"it would gain {candidate.gain:.2f} times, less than {least_gain}:"
            f" {candidate.computed_share:.0%} of the products are left"
        )
    return None


def layer_inputs(
    graph: ModelGraph,
    layers: Iterable[Layer],
    inputs: Samples,
    engine: str,
    stage: Stage,
    count: int = LOOKED_AT,
) -> dict[str, list[np.ndarray]]:
    """Return the data of each layer, for the first `count` samples."""
    given = {info.name for info in graph.inputs}
    tensors = list(dict.fromkeys(each.tensor for each in layers if each.reason is None))
    computed = [name for name in tensors if name not in given]
    run = runner(with_outputs(graph.model, computed), engine) if computed else None
    seen: dict[str, list[np.ndarray]] = {name: [] for name in tensors}
    for number, sample in enumerate(islice(inputs, count)):
        stage(f"inputs of the layers, sample {number + 1}")
        values = dict(zip(computed, run(sample), strict=True)) if run is not None else {}
        for name in tensors:
            seen[name].append(np.asarray(values.get(name, sample.get(name)), "float32"))
    return seen


def _check(least_gain: float, max_error: float, representative: str) -> None:
    for name, value in (("least_gain", least_gain), ("max_error", max_error)):
        if not value >= 0:
            raise InputError(
                name,
                expected="a number from 0 on",
                found=repr(value),
                next_step="Leave it out for the usual one.",
            )
    if representative not in (MEAN, FIRST):
        raise InputError(
            f"representative {representative!r}",
            expected=f"{MEAN!r} or {FIRST!r}",
            found=repr(representative),
            next_step="Leave it out: the mean of a cluster errs less.",
        )
