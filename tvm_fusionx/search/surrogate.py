"""A surrogate: accuracy and latency of candidates that nobody trained, by Gaussian processes.

The compiler's answers and the trainings so far are points; between them a Gaussian process tells a
mean and a deviation. What is proposed has the largest expected improvement of what is asked for.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.search.journal import WHOLE, Result
from tvm_fusionx.search.reward import Reward, pareto_front
from tvm_fusionx.search.space import Candidate, Choice, Space, candidate_key
from tvm_fusionx.search.space_file import pruning_of

# Candidates of chance before anything is modelled.
INITIAL = 8
# Candidates that are weighed for a batch: so many of chance, and so many near the best.
POOL = 128
PARENTS = 6
MUTATION_RATE = 0.15
# What the likelihood chooses from: distances over which values resemble each other, in units of the
# distance of two decisions that differ, and shares of noise.
LENGTHS = (1.0, 2.0, 4.0, 8.0)
NOISES = (1e-3, 1e-2, 1e-1, 0.5)
PRUNING = "pruning"


class Encoding:
    """Candidates of a space as vectors, in which decisions that differ lie about 1 apart.

    Numbers are placed by their logarithm, words each on an axis of its own; pruning by its scheme
    and its rate. A decision that a candidate does not take has an axis too.
    """

    def __init__(self, space: Space) -> None:
        self._options: dict[str, tuple[Any, ...]] = {}
        for item in space.items:
            if isinstance(item, Choice):
                self._options[item.name] = item.options
                continue
            (count,) = (each for each in space.items if getattr(each, "name", "") == item.count)
            assert isinstance(count, Choice)
            for place in range(max(int(option) for option in count.options)):
                for choice in item.choices:
                    self._options[f"{item.prefix}{place}.{choice.name}"] = choice.options

    def __call__(self, candidate: Mapping[str, Any]) -> np.ndarray:
        """Return the vector of a candidate."""
        values: list[float] = []
        for name, options in self._options.items():
            found = candidate["choices"].get(name)
            if name.rpartition(".")[2] == PRUNING:
                pairs = [pruning_of(str(option)) for option in options]
                scheme, rate = ("", 0.0) if found is None else pruning_of(str(found))
                values += [float(scheme == known) for known in dict.fromkeys(p[0] for p in pairs)]
                values.append(rate)
            elif all(isinstance(option, (int, float)) for option in options):
                low, high = math.log(min(options)), math.log(max(options))
                is_taken = found is not None
                place = (math.log(found) - low) / ((high - low) or 1.0) if is_taken else 0.0
                values += [place, float(is_taken)]
            else:
                values += [float(found == option) for option in options]
        return np.array(values)


class GaussianProcess:
    """Values at points, told between them (Rasmussen and Williams, 2006, algorithm 2.1).

    Parameters
    ----------
    points
        ``(samples, features)``.
    values
        ``(samples,)``.
    chosen
        Length and noise; by default those of :data:`LENGTHS` and :data:`NOISES` with the largest
        likelihood.
    """

    def __init__(
        self,
        points: np.ndarray,
        values: np.ndarray,
        chosen: tuple[float, float] | None = None,
    ) -> None:
        self.points = points
        self._mean, self._scale = float(values.mean()), float(values.std()) or 1.0
        scaled = (values - self._mean) / self._scale
        self.length, self.noise = chosen or max(
            ((length, noise) for length in LENGTHS for noise in NOISES),
            key=lambda each: self._likelihood(scaled, *each),
        )
        self._factor = self._factored(self.length, self.noise)
        self._weights = _solved(self._factor, scaled)

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and deviation at each of `points`."""
        between = _resemblance(points, self.points, self.length)
        inner = np.linalg.solve(self._factor, between.T)
        variance = np.maximum(1.0 - np.square(inner).sum(axis=0), 1e-12)
        return self._mean + self._scale * between @ self._weights, self._scale * np.sqrt(variance)

    def _factored(self, length: float, noise: float) -> np.ndarray:
        matrix = _resemblance(self.points, self.points, length)
        return np.linalg.cholesky(matrix + noise * np.eye(len(matrix)))

    def _likelihood(self, scaled: np.ndarray, length: float, noise: float) -> float:
        factor = self._factored(length, noise)
        return float(-scaled @ _solved(factor, scaled) / 2 - np.log(np.diag(factor)).sum())


def _resemblance(one: np.ndarray, other: np.ndarray, length: float) -> np.ndarray:
    squares = np.square(one[:, None, :] - other[None, :, :]).sum(axis=2)
    return np.exp(-squares / (2 * length**2))


def _solved(factor: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.linalg.solve(factor.T, np.linalg.solve(factor, values))


@dataclass(frozen=True)
class Told:
    """What is believed of candidates: means and deviations of accuracy and of log latency."""

    accuracy: np.ndarray
    accuracy_deviation: np.ndarray
    log_us: np.ndarray
    log_deviation: np.ndarray


def gain(told: Told, results: Sequence[Result], reward: Reward) -> np.ndarray:
    """Return what each candidate is expected to add to what `reward` asks for.

    For accuracy under a limit the improvement of the best accuracy, times the chance to be fast
    enough; for latency the improvement of its logarithm, times the chance to be accurate enough;
    for the front the improvement over what is as fast.
    """
    latency = np.exp(told.log_us)
    limit = np.full(latency.shape, math.log(reward.limit_us) if not reward.is_unlimited else np.inf)
    fast = np.ones(latency.shape) if reward.exponent else _chance(limit, told.log_us, told)
    whole = [each for each in results if each.share == WHOLE and not math.isnan(each.accuracy)]
    kept = [each for each in whole if reward(each) > 0]
    if reward.least_accuracy:
        enough = [math.log(each.latency_us) for each in kept if reward.meets(each)]
        over = (told.accuracy - reward.least_accuracy) / told.accuracy_deviation
        best = min(enough, default=float(told.log_us.max()))
        return fast * _normal(over) * _improvement(-told.log_us, told.log_deviation, -best)
    if reward.is_front:
        front = pareto_front(kept)
        as_fast = [
            max((f.accuracy for f in front if f.latency_us <= us), default=0.0) for us in latency
        ]
        return fast * _improvement(told.accuracy, told.accuracy_deviation, np.array(as_fast))
    weight = (latency / reward.limit_us) ** reward.exponent if reward.exponent else 1.0
    best = max(map(reward, kept), default=0.0)
    return fast * _improvement(told.accuracy * weight, told.accuracy_deviation * weight, best)


def _chance(limit: np.ndarray, mean: np.ndarray, told: Told) -> np.ndarray:
    return _normal((limit - mean) / told.log_deviation)


def _improvement(mean: np.ndarray, deviation: np.ndarray, best: Any) -> np.ndarray:
    """Return the expected improvement of normal variables over `best` (Jones et al., 1998)."""
    over = (mean - best) / deviation
    density = np.exp(-np.square(over) / 2) / math.sqrt(2 * math.pi)
    return deviation * (over * _normal(over) + density)


def _normal(values: np.ndarray) -> np.ndarray:
    return np.array([(1 + math.erf(each / math.sqrt(2))) / 2 for each in values])


class SurrogateStrategy:
    """Proposes what the surrogate expects most of.

    Parameters
    ----------
    space, seed
        As for :class:`tvm_fusionx.search.strategies.RandomStrategy`.
    reward
        What is asked for.
    encoded
        The space that candidates are compared in, where `space` is a part of it.
    """

    def __init__(
        self,
        space: Space,
        seed: int = 0,
        reward: Reward | None = None,
        encoded: Space | None = None,
    ) -> None:
        self.space = space
        self.reward = reward or Reward()
        self.results: dict[tuple[str, float], Result] = {}
        self._random = random.Random(seed)
        self._encode = Encoding(encoded or space)

    def tell(self, rewards: Sequence[float]) -> None:
        """Learn nothing: :meth:`observe` is told more."""

    def observe(self, results: Sequence[Result]) -> None:
        """Take what came of candidates."""
        self.results.update((each.key, each) for each in results)

    def ask(self, count: int) -> list[Candidate]:
        """Return so many candidates, none of them known where the space has others."""
        trained = [each for each in self.results.values() if not math.isnan(each.accuracy)]
        if len(trained) < INITIAL:
            return [self.space.sample(self._random) for _ in range(count)]
        pool = self._pool()
        chosen: list[Candidate] = []
        if pool:
            points = np.stack([self._encode(each) for each in pool])
            log_us, log_deviation = self._latency()(points)
            whole = np.hstack([points, np.zeros((len(points), 1))])
            model = self._accuracy(trained)
        while len(chosen) < min(count, len(pool)):
            told = Told(*model(whole), log_us, log_deviation)
            gains = gain(told, trained, self.reward)
            gains[[pool.index(each) for each in chosen]] = -1.0
            place = int(np.argmax(gains))
            # What is chosen is believed to be as expected, so that the next is another.
            accuracy = min(1.0, max(0.0, float(told.accuracy[place])))
            chosen.append(pool[place])
            trained.append(Result(pool[place], WHOLE, accuracy, math.exp(log_us[place])))
            model = self._accuracy(trained, (model.length, model.noise))
        rest = [self.space.sample(self._random) for _ in range(count - len(chosen))]
        return [*chosen, *rest]

    def _accuracy(
        self, trained: Sequence[Result], chosen: tuple[float, float] | None = None
    ) -> GaussianProcess:
        """Return accuracies by candidate and share of the training."""
        shares = np.array([[math.log(each.share)] for each in trained])
        known = np.stack([self._encode(each.candidate) for each in trained])
        values = np.array([each.accuracy for each in trained])
        return GaussianProcess(np.hstack([known, shares]), values, chosen)

    def _latency(self) -> GaussianProcess:
        """Return logarithms of latencies by candidate."""
        timed = [each for each in self.results.values() if math.isfinite(each.latency_us)]
        points = np.stack([self._encode(each.candidate) for each in timed])
        return GaussianProcess(points, np.log([each.latency_us for each in timed]))

    def _pool(self) -> list[Candidate]:
        ranked = sorted(self.results.values(), key=lambda each: -self.reward(each))
        parents = [each.candidate for each in ranked if self._is_ours(each.candidate)][:PARENTS]
        pool = [self.space.sample(self._random) for _ in range(POOL)]
        for place in range(POOL if parents else 0):
            parent = parents[place % len(parents)]
            pool.append(self.space.mutate(parent, self._random, MUTATION_RATE))
        known = {key for key, _ in self.results}
        unique = {candidate_key(each): each for each in pool}
        return [each for key, each in unique.items() if key not in known]

    def _is_ours(self, candidate: Candidate) -> bool:
        choices = candidate["choices"]
        alone = [item for item in self.space.items if isinstance(item, Choice)]
        return all(choices.get(item.name) in item.options for item in alone)
