"""CANAO's controller: an LSTM that decides one thing after another, taught by policy gradient.

The count of layers comes first, then sizes, as the space's walk has them (Compiler-Aware Neural
Architecture Optimization, 2020; REINFORCE, Williams, 1992). What moves the weights is the reward
less a moving average of rewards, and the entropy of the decisions, so that it goes on exploring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tvm_fusionx.errors import RecordError
from tvm_fusionx.output_file import new_file
from tvm_fusionx.search.space import Candidate, Choice, Option, Space

FORMAT_VERSION = 1


@dataclass(frozen=True)
class ControllerSettings:
    """How the controller learns.

    Attributes
    ----------
    hidden
        Width of the LSTM.
    learning_rate
        Adam's.
    entropy
        What a nat of entropy is worth in reward.
    decay
        How much of the baseline stays with each batch.
    """

    hidden: int = 64
    learning_rate: float = 5e-3
    entropy: float = 0.01
    decay: float = 0.9


class _Policy(nn.Module):
    """An embedding of every option of every kind of decision, an LSTM, and a head a kind."""

    def __init__(self, kinds: dict[str, tuple[Option, ...]], hidden: int) -> None:
        super().__init__()
        self.kinds = kinds
        self.hidden = hidden
        # Names of modules may not have dots.
        self.of_kind = {kind: f"kind{place}" for place, kind in enumerate(kinds)}
        self.start = nn.Parameter(torch.zeros(1, hidden))
        self.cell = nn.LSTMCell(hidden, hidden)
        self.options = nn.ModuleDict(
            {self.of_kind[kind]: nn.Embedding(len(each), hidden) for kind, each in kinds.items()}
        )
        self.heads = nn.ModuleDict(
            {self.of_kind[kind]: nn.Linear(hidden, len(each)) for kind, each in kinds.items()}
        )

    def walk(
        self, space: Space, generator: torch.Generator | None, given: Candidate | None = None
    ) -> tuple[Candidate, torch.Tensor, torch.Tensor]:
        """Return a candidate, the logarithm of its probability, and the entropy on the way."""
        x = self.start
        state = (torch.zeros(1, self.hidden), torch.zeros(1, self.hidden))
        chances: list[torch.Tensor] = []
        entropies: list[torch.Tensor] = []

        def pick(name: str, options: tuple[Option, ...]) -> Option:
            nonlocal x, state
            kind = _kind(name)
            word, known = self.of_kind[kind], self.kinds[kind]
            state = self.cell(x, state)
            logits = self.heads[word](state[0])[0]
            mask = torch.tensor([option in options for option in known])
            logs = logits.masked_fill(~mask, -torch.inf).log_softmax(-1)
            if given is not None:
                place = known.index(given["choices"][name])
            else:
                place = int(torch.multinomial(logs.detach().exp(), 1, generator=generator))
            chances.append(logs[place])
            entropies.append(-(logs.exp() * logs.masked_fill(~mask, 0.0)).sum())
            x = self.options[word](torch.tensor([place]))
            return known[place]

        candidate = space.walk(pick)
        return candidate, torch.stack(chances).sum(), torch.stack(entropies).mean()


class ControllerStrategy:
    """Candidates from the controller, which learns of every batch.

    Parameters
    ----------
    space, seed
        As for :class:`tvm_fusionx.search.strategies.RandomStrategy`.
    settings
        How it learns.
    """

    def __init__(
        self, space: Space, seed: int = 0, settings: ControllerSettings | None = None
    ) -> None:
        self.space = space
        self.settings = settings or ControllerSettings()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.policy = _Policy(_kinds(space), self.settings.hidden)
        self._optimiser = torch.optim.Adam(self.policy.parameters(), self.settings.learning_rate)
        self._generator = torch.Generator().manual_seed(seed)
        self.baseline: float | None = None
        self._asked: list[Candidate] = []

    def ask(self, count: int) -> list[Candidate]:
        """Return so many candidates, drawn from the policy as it is."""
        with torch.no_grad():
            self._asked = [self.policy.walk(self.space, self._generator)[0] for _ in range(count)]
        return list(self._asked)

    def tell(self, rewards: Sequence[float]) -> None:
        """Make decisions with rewards above the baseline more likely, others less."""
        if self.baseline is None:
            self.baseline = sum(rewards) / len(rewards)
        losses = []
        for reward, candidate in zip(rewards, self._asked, strict=True):
            _, chance, entropy = self.policy.walk(self.space, None, candidate)
            losses.append(-(reward - self.baseline) * chance - self.settings.entropy * entropy)
        self._optimiser.zero_grad()
        torch.stack(losses).mean().backward()
        self._optimiser.step()
        decay = self.settings.decay
        self.baseline = decay * self.baseline + (1 - decay) * sum(rewards) / len(rewards)

    def probability(self, candidate: Candidate) -> float:
        """Return how likely a candidate is now."""
        self.space.check(candidate)
        with torch.no_grad():
            return float(self.policy.walk(self.space, None, candidate)[1].exp())

    def save(self, path: str | Path) -> None:
        """Write all that it knows: weights, the optimiser's state, the chance, the baseline.

        Raises
        ------
        OutputFileError
            The file cannot be written.
        """
        state = {
            "format": FORMAT_VERSION,
            "space": self.space.digest(),
            "policy": self.policy.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "generator": self._generator.get_state(),
            "baseline": self.baseline,
        }
        with new_file(path) as scratch:
            torch.save(state, scratch)

    def load(self, path: str | Path) -> None:
        """Go on from what :meth:`save` wrote; nothing is unpickled but arrays.

        Raises
        ------
        RecordError
            The file cannot be read, is no such state, or is of another space or size.
        """
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True)
            if (state["format"], state["space"]) != (FORMAT_VERSION, self.space.digest()):
                raise ValueError(f"format {state['format']}, space {state['space']}")
            self.policy.load_state_dict(state["policy"])
            self._optimiser.load_state_dict(state["optimiser"])
            self._generator.set_state(state["generator"])
            self.baseline = state["baseline"]
        except Exception as error:  # torch raises a dozen kinds for a damaged file
            raise RecordError(
                f"controller {path}",
                expected="what a controller of this space saved",
                found=f"{type(error).__name__}: {error}",
                next_step="Begin anew, or give the space that it is of.",
            ) from error


def _kind(name: str) -> str:
    """Return what places of a repeated decision share: their name without the number."""
    *stage, last = name.split(".")
    return ".".join([*(each.rstrip("0123456789") for each in stage), last])


def _kinds(space: Space) -> dict[str, tuple[Option, ...]]:
    """Return the options of each kind of decision, those of all places together."""
    kinds: dict[str, dict[Option, None]] = {}

    def add(name: str, choice: Choice) -> None:
        kinds.setdefault(_kind(name), {}).update(dict.fromkeys(choice.options))

    for item in space.items:
        if isinstance(item, Choice):
            add(item.name, item)
        else:
            for choice in item.choices:
                add(f"{item.prefix}0.{choice.name}", choice)
    return {kind: tuple(options) for kind, options in kinds.items()}
