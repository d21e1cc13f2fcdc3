"""Choosing the next token from logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.errors import InputError

Array = np.ndarray[Any, Any]

# Logits are tens at most: beyond these a penalty leaves nothing else of them.
LEAST_PENALTY, MOST_PENALTY = 0.01, 100.0


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; as it is, always the likeliest."""

    temperature: float = 0.0
    """What logits are divided by before one is drawn; 0 takes the largest."""

    top_k: int = 0
    """Draw from this many of the likeliest; 0 from all."""

    top_p: float = 1.0
    """Draw from the likeliest that together have this probability (Holtzman et al., 2020)."""

    repetition_penalty: float = 1.0
    """What logits of tokens that were there are divided by, or multiplied where they are negative
    (Keskar et al., 2019)."""

    seed: int = 0
    """Of what is drawn."""

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        for name, value, is_right, expected in (
            ("temperature", self.temperature, self.temperature >= 0, "a number from 0 on"),
            ("top_k", self.top_k, self.top_k >= 0, "a number from 0 on"),
            ("top_p", self.top_p, 0 < self.top_p <= 1, "a number above 0, up to 1"),
            ("seed", self.seed, self.seed >= 0, "a whole number from 0 on"),
            (
                "repetition_penalty",
                self.repetition_penalty,
                LEAST_PENALTY <= self.repetition_penalty <= MOST_PENALTY,
                f"a number from {LEAST_PENALTY} to {MOST_PENALTY:g}",
            ),
        ):
            if not is_right or (isinstance(value, float) and not math.isfinite(value)):
                raise InputError(
                    name, expected=expected, found=str(value), next_step="Give another number."
                )


class Sampler:
    """Chooses tokens one after the other; the same ones from the same seed.

    Parameters
    ----------
    sampling
        How.
    """

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._draw = np.random.default_rng(sampling.seed)

    def choose(self, logits: Array, earlier: Sequence[int] = ()) -> int:
        """Return the next token.

        Parameters
        ----------
        logits
            float ``[vocabulary]``; not changed.
        earlier
            Tokens that were there.
        """
        how = self.sampling
        logits = penalised(logits.astype("float64"), earlier, how.repetition_penalty)
        if how.temperature == 0:
            return int(logits.argmax())
        order = np.argsort(-logits, kind="stable")
        order = order[: how.top_k] if how.top_k else order
        # Of a temperature next to nothing all but the largest become minus infinity.
        with np.errstate(over="ignore"):
            chances = np.exp((logits[order] - logits[order[0]]) / how.temperature)
        chances /= chances.sum()
        # Those whose predecessors have less than p together: never none.
        kept = int((np.cumsum(chances) - chances < how.top_p).sum())
        chances = chances[:kept] / chances[:kept].sum()
        return int(order[self._draw.choice(kept, p=chances)])


def penalised(logits: Array, earlier: Sequence[int], penalty: float) -> Array:
    """Return logits in which tokens that were there are less likely."""
    if penalty == 1.0 or not len(earlier):
        return logits
    places = np.unique(np.asarray(earlier))
    changed = logits.copy()
    held = changed[places]
    changed[places] = np.where(held > 0, held / penalty, held * penalty)
    return changed
