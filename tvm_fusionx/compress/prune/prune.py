"""``fx.compress.prune``: a model to one with zeros where our kernels can leave work out."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_fusionx.compress.prune.budget import History, least_sparsity, most_sparsity
from tvm_fusionx.compress.prune.config import Budget, PruneConfig
from tvm_fusionx.compress.prune.pruned_model import PrunedModel, layer_row
from tvm_fusionx.compress.prune.read_config import read_config
from tvm_fusionx.compress.prune.structures import Structure
from tvm_fusionx.errors import InputError, ModelError
from tvm_fusionx.output_file import check_writable

if TYPE_CHECKING:
    from tvm_fusionx.compress.prune.layouts import Layout
    from tvm_fusionx.compress.prune.trainer import Trainer

logger = logging.getLogger(__name__)

Stage = Callable[[str], None]


def prune(
    model: Any,
    *,
    config: PruneConfig | Mapping[str, Any] | str | Path,
    train: Callable[[Any, int], Any] | None = None,
    evaluate: Callable[[Any], float] | None = None,
    example: Sequence[Any] = (),
    output: str | Path | None = None,
    resume: bool = False,
    latency_of_rate: Callable[[float], float] | None = None,
    export: Mapping[str, Any] | None = None,
    on_stage: Stage | None = None,
) -> PrunedModel:
    """Return a model whose weights are zero in structures that kernels can leave out.

    Parameters
    ----------
    model
        A torch module with trained weights, which is not changed; or an ONNX file, its bytes or a
        loaded model, which is cut by magnitude and not trained.
    config
        What to prune and how: a file or a table (docs/how-to/prune-a-model.md has the words).
    train
        ``train(model, step)`` returns the loss of the batch of that number, or the loss and the
        outputs (which distillation needs). It draws from torch's generator, or from the number of
        the step alone: then a run that was stopped gives the same weights as an unbroken one.
    evaluate
        ``evaluate(model)`` returns a number, larger for better.
    example
        Inputs of the module, tensors: the model is exported with them and compared.
    output
        ONNX file to write. Beside it lie ``.checkpoint.pt``, the state of the run, and
        ``.report.json``.
    resume
        Whether to go on with the checkpoint beside `output`.
    latency_of_rate
        Milliseconds of the model at a sparsity, for ``target_latency_ms``.
    export
        Passed on to ``torch.onnx.export``.
    on_stage
        Told what is being done, in words; what is counted as ``N of M``.

    Returns
    -------
    PrunedModel
        ``.model``, ``.module``, ``.save(path)``, and ``.text()``: a table of the layers.

    Raises
    ------
    InputError, ModelError, RecordError, OutputFileError, WrongResultError, MissingDependencyError
        The configuration has a word or value that is none or asks for a function that is not given;
        the model has no layer to prune or cannot be exported; the checkpoint is another run's; a
        file cannot be written; the exported model computes something else; a package is missing.
    """
    choices = read_config(config)
    stage: Stage = logger.debug if on_stage is None else on_stage
    if output is not None:
        check_writable(output, *([model] if isinstance(model, (str, Path)) else []))
    if isinstance(model, (str, Path, bytes)) or hasattr(model, "SerializeToString"):
        if train is not None:
            raise InputError(
                "train",
                expected="a torch module to train",
                found="an ONNX model, which is only cut",
                next_step="Give the module that it was exported from, or leave `train` out.",
            )
        _check_functions(choices.budget, evaluate, latency_of_rate)
        stage("cutting")
        result = _without_training(model, choices, evaluate, latency_of_rate)
    else:
        _check_functions(choices.budget, evaluate, latency_of_rate)
        _check_module(choices, train, example)
        run = _Run(model, choices, train, evaluate, output, resume, stage)
        result = run.result(latency_of_rate, example, export)
    if output is not None:
        result.save(output)
        result.save_report(beside(output, "report.json"))
    return result


def beside(output: str | Path, ending: str) -> Path:
    """Return the path of a file that goes with `output`."""
    path = Path(output)
    return path.with_name(f"{path.name}.{ending}")


class _Run:
    """A torch module on its way to zeros."""

    def __init__(
        self,
        module: Any,
        config: PruneConfig,
        train: Any,
        evaluate: Any,
        output: str | Path | None,
        resume: bool,
        stage: Stage,
    ) -> None:
        self.module, self.config = module, config
        self.train, self.evaluate = train, evaluate
        self.output, self.resume, self.stage = output, resume, stage

    def result(
        self, latency_of_rate: Any, example: Sequence[Any], export: Mapping[str, Any] | None
    ) -> PrunedModel:
        """Prune, at the rate that the budget finds where there is one."""
        runs: dict[float, tuple[Trainer, list[Any]]] = {}

        def score(sparsity: float) -> float:
            runs[sparsity] = self._trained(self.config.at(sparsity), f"{sparsity:.4f}.")
            return float(runs[sparsity][0].scores["score"])

        config, found, history = _searched(self.config, latency_of_rate, score)
        run = runs[found] if found in runs else self._trained(config, "")
        return self._finished(*run, found, history, example, export)

    def _trained(self, config: PruneConfig, name: str) -> tuple[Trainer, list[Any]]:
        """Return a finished run, and rows of its layers before it began."""
        from tvm_fusionx.compress.prune.torch_layers import find_layers, torch, values_of
        from tvm_fusionx.compress.prune.trainer import Target, Trainer

        module = copy.deepcopy(self.module)
        layers = find_layers(module)
        config.check_names([layout for layout, _ in layers])
        told: list[tuple[Layout, Any, Structure | None, str, Any]] = []
        targets = []
        for layout, parameter in layers:
            structure, reason = config.structure_of(layout)
            told.append((layout, parameter, structure, reason, values_of(parameter).copy()))
            if structure is not None:
                targets.append(Target(layout, parameter, structure))
        if not targets:
            raise ModelError(
                f"module {type(module).__name__}",
                expected="a layer that the configuration prunes",
                found="; ".join(sorted({row[3] for row in told})) or "no layer with weights",
                next_step="Set global_config, or lower weight_threshold.",
            )
        path = None if self.output is None else beside(self.output, f"{name}checkpoint.pt")
        trainer = Trainer(
            *(module, targets, config, self.train, self.evaluate),
            *(path, self.resume, self.stage),
        )
        # Seeds of steps are no matter of the caller's.
        with torch.random.fork_rng(devices=[]):
            trainer.run()
        return trainer, told

    def _finished(
        self,
        trainer: Trainer,
        told: list[Any],
        found: float | None,
        history: History,
        example: Sequence[Any],
        export: Mapping[str, Any] | None,
    ) -> PrunedModel:
        from tvm_fusionx.compress.prune.export import check_numbers, check_zeros, export_module
        from tvm_fusionx.compress.prune.torch_layers import values_of

        masks = {id(target.parameter): target.mask for target in trainer.targets}
        rows = []
        for layout, parameter, structure, reason, dense in told:
            mask = masks.get(id(parameter))
            energy = 1.0 if mask is None else _energy(dense, values_of(mask))
            values = values_of(parameter)
            rows.append(layer_row(layout, structure, reason, dense, values, energy))
        notes = [] if self.train else ["Nothing was trained: the model has lost accuracy."]
        self.stage("exporting")
        model = export_module(trainer.module, example, export)
        check_zeros(model, sum(row.zeros for row in rows if row.structure))
        apart = check_numbers(model, trainer.module, example)
        if apart is None:
            notes.append("The ONNX file was not compared: onnxruntime is not installed.")
        else:
            notes.append(f"ONNX Runtime and torch are {apart:.1e} of the largest output apart.")
        scores = trainer.scores
        return PrunedModel(
            model,
            tuple(rows),
            method=trainer.settings.method,
            seed=trainer.settings.seed,
            dense_score=scores.get("dense"),
            cut_score=scores.get("cut"),
            score=scores.get("score"),
            sparsity_found=found,
            history=history,
            notes=tuple(notes),
            module=trainer.module.eval(),
        )


def _energy(dense: Any, mask: Any) -> float:
    squares = dense.astype("float64") ** 2
    whole = float(squares.sum())
    return float((squares * mask).sum()) / whole if whole else 1.0


def _searched(
    config: PruneConfig, latency_of_rate: Any, score: Callable[[float], float]
) -> tuple[PruneConfig, float | None, History]:
    """Return the configuration at the rate that its budget finds, that rate, and the trials."""
    budget = config.budget
    found: float | None
    if budget.target_latency_ms is not None:
        found, history = least_sparsity(latency_of_rate, budget.target_latency_ms, budget.trials)
        return config.at(found), found, history
    if budget.target_accuracy is None:
        return config, None, ()
    found, history = most_sparsity(score, budget.target_accuracy, budget.trials)
    if found is None:
        best = max(each for _, each in history)
        raise InputError(
            f"target_accuracy {budget.target_accuracy:g}",
            expected="a score that a pruned model reaches",
            found=f"{best:g} at the best, at {min(each for each, _ in history):.1%} zeros",
            next_step="Train longer, allow a lower score or more trials, or fewer layers.",
        )
    return config.at(found), found, history


def _without_training(
    model: Any, config: PruneConfig, evaluate: Any, latency_of_rate: Any
) -> PrunedModel:
    from tvm_fusionx.compress.prune.onnx_layers import prune_constants

    def score(sparsity: float) -> float:
        return float(evaluate(prune_constants(model, config.at(sparsity)).model))

    config, found, history = _searched(config, latency_of_rate, score)
    result = replace(prune_constants(model, config), sparsity_found=found, history=history)
    return result if evaluate is None else replace(result, score=float(evaluate(result.model)))


def _check_functions(budget: Budget, evaluate: Any, latency_of_rate: Any) -> None:
    """Raise InputError where a budget needs a function that is not given."""
    if budget.target_accuracy is not None and evaluate is None:
        raise _missing("evaluate", "a function: target_accuracy needs it")
    if budget.target_latency_ms is not None and latency_of_rate is None:
        raise _missing("latency_of_rate", "a function: target_latency_ms needs it")


def _check_module(config: PruneConfig, train: Any, example: Sequence[Any]) -> None:
    """Raise InputError where a module cannot be trained or exported with what is given."""
    steps = config.training.prune_steps + config.training.retrain_steps
    if steps and train is None:
        raise _missing("train", f"a function: the configuration has {steps} steps of training")
    if not example:
        raise _missing("example", "a sequence of the module's inputs: the export needs it")


def _missing(name: str, expected: str) -> InputError:
    return InputError(
        name, expected=expected, found="none", next_step=f"Pass {name}=..., or leave that out."
    )
