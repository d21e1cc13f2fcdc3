"""What to prune and how, with coremltools' words; files of it are read by `read_config.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tvm_fusionx.compress.prune.layouts import Layout
from tvm_fusionx.compress.prune.structures import Structure
from tvm_fusionx.compress.prune.words import check_word

ONE_SHOT, GRADUAL, ADMM = "one_shot", "gradual", "admm"
METHODS = (ONE_SHOT, GRADUAL, ADMM)
OPTIMIZERS = ("sgd", "adamw")

# Layers of fewer weights stay dense: coremltools' `weight_threshold`, and its default.
WEIGHT_THRESHOLD = 2048


@dataclass(frozen=True)
class Training:
    """How weights are trained while and after they are pruned.

    Attributes
    ----------
    method
        ``"one_shot"`` cuts at once, ``"gradual"`` with the cubic schedule of Zhu and Gupta,
        ``"admm"`` pulls weights towards the structure before they are cut.
    prune_steps
        Steps of the gradual or ADMM part.
    retrain_steps
        Steps with the masks fixed, afterwards.
    update_every
        Steps between two masks (gradual) or projections (ADMM).
    optimizer, learning_rate, weight_decay, momentum
        What a step does; the rate falls to zero along a half cosine within each part.
    warm_up
        Share of a part's steps in which the rate rises first.
    rho
        Weight of ADMM's penalty, one number for each equal stage of its steps.
    distillation, temperature
        Weight of the distance to the dense model's outputs beside the loss (0: none), and what
        outputs are divided by.
    seed, checkpoint_every
        The seed of every draw, and steps between two checkpoints.
    """

    method: str = ONE_SHOT
    prune_steps: int = 0
    retrain_steps: int = 0
    update_every: int = 50
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    warm_up: float = 0.05
    rho: tuple[float, ...] = (1e-3, 1e-2, 1e-1)
    distillation: float = 0.0
    temperature: float = 4.0
    seed: int = 0
    checkpoint_every: int = 200


@dataclass(frozen=True)
class Budget:
    """What a search for the rate holds to; at most one of the two.

    Attributes
    ----------
    target_latency_ms
        The lowest sparsity with which the model is this fast.
    target_accuracy
        The highest sparsity with which the model is this good, as `evaluate` counts.
    trials
        How many rates are tried.
    """

    target_latency_ms: float | None = None
    target_accuracy: float | None = None
    trials: int = 5


@dataclass(frozen=True)
class PruneConfig:
    """What to prune, and how.

    Attributes
    ----------
    global_config
        The structure of each layer that nothing else names; None: such layers stay dense.
    op_type_configs, op_name_configs
        Structures by kind of layer and by a layer's name; None: dense.
    weight_threshold
        Layers of fewer weights stay dense, unless they are named.
    training, budget
        How to train, and what to search the rate for.
    """

    global_config: Structure | None = None
    op_type_configs: Mapping[str, Structure | None] = field(default_factory=dict)
    op_name_configs: Mapping[str, Structure | None] = field(default_factory=dict)
    weight_threshold: int = WEIGHT_THRESHOLD
    training: Training = Training()
    budget: Budget = Budget()

    def structure_of(self, layout: Layout) -> tuple[Structure | None, str]:
        """Return a layer's structure, or None and why it stays dense."""
        if layout.name in self.op_name_configs:
            structure = self.op_name_configs[layout.name]
        else:
            if math.prod(layout.shape) < self.weight_threshold:
                return None, f"has fewer than {self.weight_threshold} weights"
            structure = self.op_type_configs.get(layout.kind, self.global_config)
        if structure is None:
            return None, "not to be pruned"
        reason = structure.why_not(layout.canonical_shape)
        return (structure, "") if reason is None else (None, reason)

    def at(self, sparsity: float) -> PruneConfig:
        """Return the configuration with another sparsity everywhere."""

        def moved(structure: Structure | None) -> Structure | None:
            return None if structure is None else structure.at(sparsity)

        return PruneConfig(
            moved(self.global_config),
            {word: moved(each) for word, each in self.op_type_configs.items()},
            {word: moved(each) for word, each in self.op_name_configs.items()},
            self.weight_threshold,
            self.training,
            self.budget,
        )

    def check_names(self, layouts: list[Layout]) -> None:
        """Raise InputError where a configuration names a layer that is not there."""
        names = [layout.name for layout in layouts]
        for name in self.op_name_configs:
            check_word("op_name_configs", name, names)

    def to_json(self) -> dict[str, Any]:
        """Return all of it for ``json.dumps``."""
        return asdict(self)
