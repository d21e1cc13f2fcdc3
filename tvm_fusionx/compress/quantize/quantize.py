"""``fx.quantize``: a model of floats to one of integers that is nearly as good."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_fusionx.compress.quantize.affine import Affine
from tvm_fusionx.compress.quantize.calibrate import Stage, observe, tensors_to_observe
from tvm_fusionx.compress.quantize.choose_ranges import ChosenRange, choose_ranges
from tvm_fusionx.compress.quantize.guard import Guarded, guard
from tvm_fusionx.compress.quantize.journal import TrialJournal
from tvm_fusionx.compress.quantize.layer_times import (
    LayerTime,
    Timer,
    time_layers,
    time_on_this_machine,
)
from tvm_fusionx.compress.quantize.model_graph import ModelGraph
from tvm_fusionx.compress.quantize.placement import place
from tvm_fusionx.compress.quantize.prepare import prepared_graph
from tvm_fusionx.compress.quantize.quantized_model import (
    FLOATS,
    INTEGERS,
    LayerRow,
    QuantizedModel,
    curve_of,
)
from tvm_fusionx.compress.quantize.ranges import AUTO, METHODS
from tvm_fusionx.compress.quantize.runner import TARGET, default_engine
from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.compress.quantize.score import Judge, Metric
from tvm_fusionx.compress.quantize.smooth import Smoothed, smooth
from tvm_fusionx.compress.quantize.units import SUM, Unit, find_units
from tvm_fusionx.compress.quantize.write_qdq import write_qdq
from tvm_fusionx.errors import InputError, ModelError
from tvm_fusionx.frontend.read_model import ModelSource
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.schedules import resolve_target

logger = logging.getLogger(__name__)

UNSIGNED, SIGNED = "uint8", "int8"


def quantize(
    model: ModelSource,
    calibration: Any,
    *,
    metric: Metric | str | None = None,
    validation: Iterable[Any] | None = None,
    max_drop: float = 0.01,
    target: Any = TARGET,
    method: str = AUTO,
    smoothing: bool = True,
    products: bool = False,
    guarded: bool = True,
    measure: bool = False,
    budget_seconds: float | None = None,
    journal: str | Path | None = None,
    resume: bool = False,
    samples: int | None = None,
    engine: str | None = None,
    on_stage: Stage | None = None,
    timer: Timer | None = None,
) -> QuantizedModel:
    """Return a model whose layers multiply integers, as standard ONNX (QDQ).

    Parameters
    ----------
    model
        ONNX file, its bytes, or a loaded model, in float32.
    calibration
        Inputs as they come in use, tens to hundreds: a sequence of dictionaries by input name (or
        of arrays, where there is one input), a folder of ``.npz`` or ``.npy`` files, or one
        ``.npz`` whose arrays have an axis for the samples. Read several times.
    metric
        What the model must keep: ``"top1"`` with `validation` as pairs of inputs and labels, or a
        function ``metric(run)`` (``metric(run, validation)`` where that is given) to a number,
        larger for better; ``run(inputs)`` returns the outputs. Without one the guard holds the
        divergence of the outputs on the calibration set: squares of differences relative to squares
        of outputs. It tells nothing of what the outputs are used for.
    validation
        Passed on to `metric`.
    max_drop
        What the model may lose, in the metric's own unit; or the divergence it may have.
    target
        Decides whether activations are signed: what its instruction multiplies.
    method
        Ranges of activations: ``"minmax"``, ``"percentile"``, ``"entropy"`` or ``"mse"`` for all
        tensors, or ``"auto"``: for each the one with which its layers' results are least wrong.
    smoothing
        Whether outliers of channels are moved into weights where that helps (SmoothQuant).
    products
        Whether products of two activations (attention) are quantised too: faster, at some cost in
        accuracy.
    guarded
        Whether layers go back to float until the drop is at most `max_drop`. Otherwise the score is
        only reported.
    measure
        Whether each layer is built and timed on this machine, and stays float where integers are
        no faster.
    budget_seconds
        Time for the guard; the best model so far is taken when it is spent.
    journal, resume
        File of the guard's trials, and whether to go on with those that are in it.
    samples
        Use only the first so many of the calibration set.
    engine
        What runs models meanwhile: ``"onnxruntime"`` (by default, where it is installed) or
        ``"fusionx"``.
    on_stage
        Told what is being done, in words; what is counted as ``N of M``.
    timer
        Measures one layer's program, for `measure`; by default on this machine.

    Returns
    -------
    QuantizedModel
        ``.model``, ``.save(path)``, and ``.text()``: a table of the layers.

    Raises
    ------
    ModelError, InputError, RecordError, OutputFileError, TargetError
        The model is no float32 model or has no layer to quantise; the calibration set, method,
        metric or engine is none; the journal is another model's or cannot be written; the target is
        unknown.
    """
    stage: Stage = logger.debug if on_stage is None else on_stage
    engine = default_engine() if engine is None else engine
    _check_method(method)
    dtype = activation_type(target)
    stage("reading")
    graph = prepared_graph(model)
    if not find_units(graph, products=products):
        raise ModelError(
            f"model {graph.model.graph.name!r}",
            expected="convolutions or matrix products with constant weights",
            found="none",
            next_step="There is nothing to quantise in it.",
        )
    inputs = Samples(calibration, graph.inputs, samples)
    judge = Judge(graph.model, inputs, metric, validation, engine)
    plan = _planned(graph, inputs, engine, method, dtype, products, stage)
    smoothed: list[Smoothed] = []
    if smoothing:
        changed, smoothed = smooth(graph, plan.units, inputs, engine, stage)
    if smoothed:
        other = _planned(ModelGraph(changed), inputs, engine, method, dtype, products, stage)
        # Each layer is nearer to its results; whether the whole is, only the whole tells.
        if judge.divergence(other.whole()) < judge.divergence(plan.whole()):
            plan = other
        else:
            smoothed = []
    graph, units, write = plan.graph, plan.units, plan.write
    names = [unit.name for unit in units]
    times: Mapping[str, LayerTime] = {}
    if measure:
        timer = time_on_this_machine if timer is None else timer
        times = time_layers(graph, plan.whole(), units, inputs, engine, str(target), stage, timer)
    slow = {name for name, taken in times.items() if taken.is_slower}
    fast = [name for name in names if name not in slow]
    choices = {"dtype": dtype, "names": fast, "judge": judge.name}
    fingerprint = _fingerprint(graph.model, plan.affines, choices)
    trials = TrialJournal(None if journal is None else Path(journal), fingerprint, resume=resume)
    done = guard(
        fast,
        write,
        judge,
        trials,
        max_drop=max_drop if guarded else math.inf,
        budget_seconds=budget_seconds,
        on_stage=stage,
    )
    drops = {active: judge.drop(score) for active, score in trials.trials()}
    costs = {name: judge.drop(score) for name, score in done.alone.items()}
    rows = _rows(plan, done, costs, times, slow)
    notes = []
    if smoothed:
        notes.append(
            f"{len(smoothed)} tensors are smoothed, {sum(s.folded for s in smoothed)} free"
        )
    if done.is_out_of_time:
        notes.append("The budget ended the search: the best model so far is given.")
    if not judge.is_metric:
        notes.append("No metric was given: only how far outputs move was held.")
    return QuantizedModel(
        model=write(done.active),
        layers=tuple(rows),
        judged_by=judge.name,
        float_score=judge.float_score.value,
        score=done.score.value,
        full_score=None if done.full_score is None else done.full_score.value,
        drop=judge.drop(done.score),
        max_drop=max_drop if guarded else math.inf,
        trials=done.trials,
        notes=tuple(notes),
        curve=curve_of(drops),
    )


def activation_type(target: Any) -> str:
    """Return the type of activations that the target's instruction multiplies.

    Raises
    ------
    TargetError
        The target is unknown.
    """
    resolved = resolve_target(target)
    dot = describe_cpu(resolved).dot if is_cpu(resolved) else None
    return SIGNED if dot is not None and dot.data == SIGNED else UNSIGNED


@dataclass(frozen=True)
class _Plan:
    """A model with all that is known to write it with any of its units quantised."""

    graph: ModelGraph
    units: list[Unit]
    ranges: Mapping[str, ChosenRange]

    @property
    def affines(self) -> dict[str, Affine]:
        return {name: chosen.affine for name, chosen in self.ranges.items()}

    def write(self, active: Iterable[str]) -> Any:
        return write_qdq(self.graph, self.units, frozenset(active), self.affines)

    def whole(self) -> Any:
        return self.write(unit.name for unit in self.units)


def _planned(
    graph: ModelGraph,
    inputs: Samples,
    engine: str,
    method: str,
    dtype: str,
    products: bool,
    stage: Stage,
) -> _Plan:
    """Return a plan with a range for each tensor."""
    units = _useful(graph, find_units(graph, products=products))
    histograms = observe(graph, tensors_to_observe(graph, units), inputs, engine, stage)
    ranges = choose_ranges(
        graph, units, histograms, inputs, engine, method=method, dtype=dtype, on_stage=stage
    )
    return _Plan(graph, units, ranges)


def _useful(graph: ModelGraph, units: Sequence[Unit]) -> list[Unit]:
    """Return the units that read an integer when all do: not a sum of tensors that none wants."""
    placement = place(graph, units, {unit.name for unit in units})
    readers = {node.name for edges in placement.edges.values() for node, _ in edges}
    return [unit for unit in units if unit.kind != SUM or unit.name in readers]


def _check_method(method: str) -> None:
    if method not in (AUTO, *METHODS):
        raise InputError(
            f"method {method!r}",
            expected=f"one of {', '.join((AUTO, *METHODS))}",
            found=repr(method),
            next_step="Leave it out: each tensor then gets the best of them.",
        )


def _fingerprint(model: Any, affines: Mapping[str, Any], choices: Mapping[str, Any]) -> str:
    """Return a digest of all that a trial's score depends on but the metric's own code."""
    digest = hashlib.sha256(model.SerializeToString(deterministic=True))
    digest.update(json.dumps(choices, sort_keys=True).encode())
    digest.update(repr(sorted(affines.items())).encode())
    return digest.hexdigest()


def _rows(
    plan: _Plan,
    done: Guarded,
    costs: Mapping[str, float],
    times: Mapping[str, LayerTime],
    slow: Iterable[str],
) -> list[LayerRow]:
    """Return the table: what each unit became, and why."""
    placement = place(plan.graph, plan.units, done.active)
    methods: dict[str, str] = {}
    for tensor, edges in placement.edges.items():
        chosen = plan.ranges[placement.range_of(plan.graph, tensor)]
        methods.update((node.name, chosen.method) for node, _ in edges)
    rows = []
    for unit in plan.units:
        taken = times.get(unit.name)
        is_integer = unit.name in done.active
        reason = ""
        if unit.name in slow and taken is not None:
            reason = f"integers take {taken.int8_ms:.3f} ms, floats {taken.float_ms:.3f}"
        elif not is_integer:
            reason = _why_float(unit, done, costs)
        rows.append(
            LayerRow(
                unit.name,
                unit.op,
                unit.kind,
                INTEGERS if is_integer else FLOATS,
                reason,
                methods.get(unit.name, ""),
                costs.get(unit.name),
                None if taken is None else taken.float_ms,
                None if taken is None else taken.int8_ms,
            )
        )
    return rows


def _why_float(unit: Unit, done: Guarded, costs: Mapping[str, float]) -> str:
    if unit.name not in costs or (done.is_out_of_time and not done.active):
        return "the budget ended before it was tried"
    return f"kept by the guard: alone it costs {costs[unit.name]:.2e}"
