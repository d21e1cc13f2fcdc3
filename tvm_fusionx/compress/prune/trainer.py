"""The steps of a run: weights are trained while masks or ADMM's penalty lead them to a structure.

A step is a function of its number and of the state before it: every draw of a step comes from a
seed of its own, and the state is a checkpoint's. So a run that was stopped ends with the same
weights.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.compress.prune.batches import seed_of
from tvm_fusionx.compress.prune.checkpoint import load_checkpoint, save_checkpoint
from tvm_fusionx.compress.prune.config import ADMM, GRADUAL, ONE_SHOT, PruneConfig
from tvm_fusionx.compress.prune.layouts import Layout
from tvm_fusionx.compress.prune.schedules import cubic_sparsity, learning_rate, stage_of
from tvm_fusionx.compress.prune.structures import Structure
from tvm_fusionx.compress.prune.torch_layers import tensor_like, torch, values_of
from tvm_fusionx.errors import InputError

# ``train(model, step)`` returns the loss of a batch, or the loss and the model's outputs.
TrainStep = Callable[[Any, int], Any]
Evaluate = Callable[[Any], float]
Stage = Callable[[str], None]


@dataclass
class Target:
    """A layer on its way to a structure.

    Attributes
    ----------
    layout, parameter, structure
        The layer, its parameter, and where it is to go.
    mask
        What stays, as a tensor; None while nothing is cut.
    patterns
        ADMM's fixed patterns, or None.
    projected, dual
        ADMM's second copy of the weights, and the running sum of differences to it.
    """

    layout: Layout
    parameter: Any
    structure: Structure
    mask: Any = None
    patterns: np.ndarray | None = None
    projected: Any = None
    dual: Any = None

    def mask_of(self, values: Any, sparsity: float | None = None) -> Any:
        """Return the mask of the nearest point to a tensor of this layer's shape."""
        structure = self.structure if sparsity is None else self.structure.at(sparsity)
        weights = self.layout.canonical(values_of(values))
        kept = structure.mask(weights, self.layout.parts, self.patterns)
        return tensor_like(self.parameter, self.layout.restored(kept).astype("float32"))

    def cut(self, sparsity: float | None = None) -> None:
        """Set the mask by the present weights, and the others to zero."""
        self.mask = self.mask_of(self.parameter, sparsity)
        self.keep()

    def keep(self) -> None:
        """Set what the mask cuts to zero."""
        if self.mask is not None:
            self.parameter.data.mul_(self.mask)


class Trainer:
    """One run of a configuration on one module.

    Parameters
    ----------
    module
        Changed in place.
    targets
        Its layers that are pruned.
    config
        All choices.
    train, evaluate
        The user's functions; without `train` the weights are only cut.
    checkpoint, resume
        The file of the state, and whether to go on with it.
    stage
        Told what is done.
    """

    def __init__(
        self,
        module: Any,
        targets: list[Target],
        config: PruneConfig,
        train: TrainStep | None,
        evaluate: Evaluate | None,
        checkpoint: Path | None,
        resume: bool,
        stage: Stage,
    ) -> None:
        self.module, self.targets, self.settings = module, targets, config.training
        self.train, self.evaluate, self.stage = train, evaluate, stage
        self.checkpoint, self.resume = checkpoint, resume
        self.scores: dict[str, float] = {}
        self.is_done = False
        self.fingerprint = _fingerprint(module, config)
        self._teacher = copy.deepcopy(module).eval() if self.settings.distillation else None
        is_at_once = self.settings.method == ONE_SHOT or train is None
        self._pruning = 0 if is_at_once else self.settings.prune_steps
        self._steps = 0 if train is None else self._pruning + self.settings.retrain_steps
        self._optimizer: Any = None

    def run(self) -> None:
        """Take all steps that are left; the module then has its zeros and its last weights."""
        step = self._restore()
        if step is None:
            step = 0
            self._score("dense")
            self._begin()
        while step < self._steps:
            if step == self._pruning:
                self._end_pruning()
            self.stage(f"training, step {step + 1} of {self._steps}")
            self._step(step)
            step += 1
            if step % self.settings.checkpoint_every == 0:
                self._save(step)
        if not self.is_done:
            if self._steps <= self._pruning:
                self._end_pruning()
            self._score("score")
            self.is_done = True
            self._save(step)

    def _begin(self) -> None:
        self._optimizer = self._new_optimizer()
        if self.settings.method != ADMM or not self._pruning:
            return
        for target in self.targets:
            weights = target.layout.canonical(values_of(target.parameter))
            target.patterns = target.structure.choose(weights, target.layout.parts)
            target.dual = torch.zeros_like(target.parameter)
            target.projected = target.parameter.detach() * target.mask_of(target.parameter)

    def _end_pruning(self) -> None:
        """Cut what is to be zero, and train what is left with a new optimizer."""
        for target in self.targets:
            target.cut()
            target.projected = target.dual = None
        self._optimizer = self._new_optimizer()
        if self._steps > self._pruning:
            self._score("cut")

    def _step(self, step: int) -> None:
        if step < self._pruning:
            self._lead(step)
            place, steps = step, self._pruning
        else:
            place, steps = step - self._pruning, self._steps - self._pruning
        rate = learning_rate(place, steps, self.settings.learning_rate, self.settings.warm_up)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.zero_grad(set_to_none=True)
        self._loss(step).backward()
        rho = self._rho(step)
        for target in self.targets:
            gradient = target.parameter.grad
            if gradient is None:
                continue
            if target.dual is not None:
                distance = target.parameter.detach() - target.projected + target.dual
                gradient.add_(distance, alpha=rho)
            if target.mask is not None:
                gradient.mul_(target.mask)
        self._optimizer.step()
        for target in self.targets:
            target.keep()

    def _rho(self, step: int) -> float:
        return stage_of(step, self._pruning, self.settings.rho)

    def _lead(self, step: int) -> None:
        """Move masks, or ADMM's second copies, every so many steps."""
        if self.settings.method == ADMM and step and self._rho(step) != self._rho(step - 1):
            # The sum of differences is scaled by the penalty (Boyd et al., 2011, section 3.4.1).
            for target in self.targets:
                target.dual.mul_(self._rho(step - 1) / self._rho(step))
        if step % self.settings.update_every:
            return
        for target in self.targets:
            if self.settings.method == GRADUAL:
                progress = (step + self.settings.update_every) / self._pruning
                target.cut(cubic_sparsity(progress, target.structure.target_sparsity))
            elif step:
                moved = target.parameter.detach() + target.dual
                target.projected = moved * target.mask_of(moved)
                target.dual = moved - target.projected

    def _loss(self, step: int) -> Any:
        assert self.train is not None
        self.module.train()
        loss, outputs = _asked(self.train, self.module, step, self.settings.seed)
        if self._teacher is not None:
            with torch.no_grad():
                _, wanted = _asked(self.train, self._teacher, step, self.settings.seed)
            share = self.settings.distillation
            loss = loss + share * distance(outputs, wanted, self.settings.temperature)
        if not math.isfinite(loss.item()):
            raise InputError(
                f"the loss of step {step}",
                expected="a finite number",
                found=str(loss.item()),
                next_step="Lower learning_rate or rho, or look at the data of this step.",
            )
        return loss

    def _score(self, name: str) -> None:
        if self.evaluate is None:
            return
        self.stage(f"scoring ({name})")
        self.module.eval()
        torch.manual_seed(self.settings.seed)
        with torch.no_grad():
            self.scores[name] = float(self.evaluate(self.module))

    def _new_optimizer(self) -> Any:
        settings = self.settings
        learned = [each for each in self.module.parameters() if each.requires_grad]
        if settings.optimizer == "sgd":
            return torch.optim.SGD(
                learned,
                settings.learning_rate,
                momentum=settings.momentum,
                weight_decay=settings.weight_decay,
            )
        return torch.optim.AdamW(
            learned, settings.learning_rate, weight_decay=settings.weight_decay
        )

    def _save(self, step: int) -> None:
        if self.checkpoint is None:
            return
        state = {
            "step": step,
            "is_done": self.is_done,
            "model": self.module.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "mask": [target.mask for target in self.targets],
            "projected": [target.projected for target in self.targets],
            "dual": [target.dual for target in self.targets],
            "patterns": [_as_tensor(target.patterns) for target in self.targets],
            "scores": dict(self.scores),
        }
        save_checkpoint(self.checkpoint, self.fingerprint, state)

    def _restore(self) -> int | None:
        """Take up the state of the checkpoint; return its step, or None where there is none."""
        if self.checkpoint is None or not self.resume:
            return None
        state = load_checkpoint(self.checkpoint, self.fingerprint)
        if state is None:
            return None
        self.module.load_state_dict(state["model"])
        self._optimizer = self._new_optimizer()
        self._optimizer.load_state_dict(state["optimizer"])
        for name in ("mask", "projected", "dual"):
            for target, tensor in zip(self.targets, state[name], strict=True):
                moved = None if tensor is None else tensor.to(target.parameter.device)
                setattr(target, name, moved)
        for target, tensor in zip(self.targets, state["patterns"], strict=True):
            target.patterns = None if tensor is None else tensor.numpy()
        self.scores = dict(state["scores"])
        self.is_done = bool(state["is_done"])
        return int(state["step"])


def distance(outputs: Any, wanted: Any, temperature: float) -> Any:
    """Return how far a model's outputs are from the dense model's (Hinton et al., 2015).

    Parameters
    ----------
    outputs, wanted
        Logits ``(samples, classes, ...)``.
    temperature
        What they are divided by; the distance is in the loss's own scale, whatever it is.
    """
    if outputs is None or wanted is None:
        raise InputError(
            "train(model, step)",
            expected="the loss and the model's outputs, which distillation compares",
            found="the loss alone",
            next_step="Return (loss, outputs), or leave distillation out.",
        )
    told = torch.log_softmax(outputs / temperature, dim=1)
    dense = torch.log_softmax(wanted / temperature, dim=1)
    apart = (dense.exp() * (dense - told)).sum(dim=1).mean()
    return apart * temperature**2


def _asked(train: TrainStep, module: Any, step: int, seed: int) -> tuple[Any, Any]:
    """Return loss and outputs; each step draws from a seed of its own."""
    torch.manual_seed(seed_of(seed, step))
    answer = train(module, step)
    loss, outputs = answer if isinstance(answer, tuple) else (answer, None)
    if not isinstance(loss, torch.Tensor) or loss.ndim:
        raise InputError(
            "train(model, step)",
            expected="a tensor of one number, the loss (or that and the model's outputs)",
            found=type(loss).__name__,
            next_step="Return the loss before backward(): pruning adds its own parts to it.",
        )
    return loss, outputs


def _as_tensor(patterns: np.ndarray | None) -> Any:
    return None if patterns is None else torch.from_numpy(patterns.copy())


def _fingerprint(module: Any, config: PruneConfig) -> str:
    """Return a digest of the weights that a run begins with, and of all choices."""
    told = config.to_json()
    # How often a state is written changes nothing of it.
    told["training"].pop("checkpoint_every")
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for name, tensor in module.state_dict().items():
        digest.update(name.encode())
        plain = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(plain.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
