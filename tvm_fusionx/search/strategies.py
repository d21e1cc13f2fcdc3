"""Who proposes: chance, evolution, Optuna's samplers, or a controller.

A strategy is asked for candidates and told their rewards in the order in which it proposed them.
With its seed and the rewards it repeats itself, so a search that was cut short is resumed by asking
it again and answering from the journal.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tvm_fusionx.search.journal import Result
from tvm_fusionx.search.space import Candidate, Option, Space

if TYPE_CHECKING:
    from optuna.trial import Trial

# Real et al., 2019, keep 100 of thousands of networks; searches here train hundreds.
POPULATION = 16
TOURNAMENT = 4


class Strategy(Protocol):
    """Proposes candidates."""

    def ask(self, count: int) -> list[Candidate]:
        """Return so many candidates, of which some may be equal."""

    def tell(self, rewards: Sequence[float]) -> None:
        """Take the rewards of all that was asked for last, in order."""


@runtime_checkable
class Observer(Protocol):
    """A strategy that learns from accuracies and latencies, and not from rewards alone."""

    def observe(self, results: Sequence[Result]) -> None:
        """Take what came of all that was asked for last, in order."""


@runtime_checkable
class Informed(Protocol):
    """A strategy that asks the compiler for latencies while it chooses what to propose."""

    latency_of: Callable[[Mapping[str, Any]], float] | None
    """Returns the microseconds of a candidate; set by the search, None where nobody tells."""


class RandomStrategy:
    """Candidates by chance, each decision uniform.

    Parameters
    ----------
    space
        What they are of.
    seed
        Of the chance.
    """

    def __init__(self, space: Space, seed: int = 0) -> None:
        self.space = space
        self._random = random.Random(seed)

    def ask(self, count: int) -> list[Candidate]:
        """Return so many candidates."""
        return [self.space.sample(self._random) for _ in range(count)]

    def tell(self, rewards: Sequence[float]) -> None:
        """Learn nothing."""


class EvolutionStrategy:
    """Regularised evolution (Real et al., 2019): the best of a few is mutated, the oldest dies.

    Parameters
    ----------
    space, seed
        As for :class:`RandomStrategy`.
    population, tournament
        How many live, and how many of them compete to be the parent.
    """

    def __init__(
        self,
        space: Space,
        seed: int = 0,
        population: int = POPULATION,
        tournament: int = TOURNAMENT,
    ) -> None:
        self.space, self.tournament, self.population = space, tournament, population
        self._random = random.Random(seed)
        self._alive: deque[tuple[float, Candidate]] = deque(maxlen=population)
        self._asked: list[Candidate] = []

    def ask(self, count: int) -> list[Candidate]:
        """Return so many children; random candidates until the population is complete."""
        self._asked = [self._child() for _ in range(count)]
        return list(self._asked)

    def tell(self, rewards: Sequence[float]) -> None:
        """Let the children live, and the oldest die."""
        self._alive.extend(zip(rewards, self._asked, strict=True))

    def _child(self) -> Candidate:
        if len(self._alive) < self.population:
            return self.space.sample(self._random)
        rivals = self._random.sample(list(self._alive), min(self.tournament, self.population))
        _, parent = max(rivals, key=lambda each: each[0])
        return self.space.mutate(parent, self._random)


class OptunaStrategy:
    """Optuna's samplers: a tree of Parzen estimators, or a Gaussian process.

    Parameters
    ----------
    space, seed
        As for :class:`RandomStrategy`.
    sampler
        ``"tpe"`` or ``"gp"``.

    Raises
    ------
    MissingDependencyError
        Optuna is not installed.
    ValueError
        There is no such sampler.
    """

    def __init__(self, space: Space, seed: int = 0, sampler: str = "tpe") -> None:
        try:
            import optuna
        except ModuleNotFoundError as error:
            from tvm_fusionx._tvm.presence import missing_package

            raise missing_package(error) from error
        # What it says of each trial, the journal has.
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        made: dict[str, Callable[[], Any]] = {
            "tpe": lambda: optuna.samplers.TPESampler(seed=seed),
            "gp": lambda: optuna.samplers.GPSampler(seed=seed),
        }
        if sampler not in made:
            raise ValueError(f"sampler: expected one of {', '.join(made)}; found {sampler!r}.")
        self.space = space
        self._study = optuna.create_study(direction="maximize", sampler=made[sampler]())
        self._trials: list[Trial] = []

    def ask(self, count: int) -> list[Candidate]:
        """Return so many candidates."""
        self._trials = [self._study.ask() for _ in range(count)]
        return [self._walk(trial) for trial in self._trials]

    def tell(self, rewards: Sequence[float]) -> None:
        """Take rewards."""
        for trial, reward in zip(self._trials, rewards, strict=True):
            self._study.tell(trial, reward)

    def _walk(self, trial: Trial) -> Candidate:
        def pick(name: str, options: tuple[Option, ...]) -> Option:
            # One name has one set of options in Optuna; here earlier decisions may leave others.
            word = f"{name} of {', '.join(map(str, options))}"
            return trial.suggest_categorical(word, options)  # type: ignore[return-value]

        return self.space.walk(pick)
