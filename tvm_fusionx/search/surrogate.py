"""A surrogate: accuracy and latency of candidates that nobody trained, by Gaussian processes.

The compiler's answers and the trainings so far are points; between them a Gaussian process tells a
mean and a deviation. What is proposed has the largest expected improvement of what is asked for,
and the compiler is asked for its latency before it is believed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_fusionx.errors import SpaceError
from tvm_fusionx.search.encoding import Encoding
from tvm_fusionx.search.expected_gain import Told, gain
from tvm_fusionx.search.gaussian_process import GaussianProcess
from tvm_fusionx.search.journal import WHOLE, Result
from tvm_fusionx.search.pruned_layers import kept_weights
from tvm_fusionx.search.pruned_spaces import unpruned
from tvm_fusionx.search.reward import Reward, pareto_front
from tvm_fusionx.search.space import Candidate, Space, candidate_key

# Candidates of chance before anything is modelled.
INITIAL = 8
# Draws for each candidate of chance until the space is taken for known.
MOST_DRAWS = 16
# Candidates that are weighed for a batch: so many of chance, and so many near the best.
POOL = 128
PARENTS = 6
MUTATION_RATE = 0.15
# Latencies that the compiler is asked for at most, for each candidate that is proposed.
ASKED_EACH = 3
# Of a logarithm of latency that was told.
EXACT = 1e-6
# No gain: what may not be proposed.
NOTHING = -1.0


class SurrogateStrategy:
    """Proposes what the surrogate expects most of.

    Parameters
    ----------
    space, seed
        As for :class:`tvm_fusionx.search.strategies.RandomStrategy`.
    reward
        What is asked for.
    encoded
        The space that candidates are compared in, where `space` is a part of it: results of all of
        it may be observed.

    Attributes
    ----------
    latency_of
        Tells latencies of what may be proposed; the surrogate's are taken where it is None.
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
        self.latency_of: Callable[[Mapping[str, Any]], float] | None = None
        self._first = unpruned(space) or space
        self._random = random.Random(seed)
        self._encode = Encoding(encoded or space)
        self._told: dict[str, tuple[Candidate, float]] = {}

    def tell(self, rewards: Sequence[float]) -> None:
        """Learn nothing: :meth:`observe` is told more."""

    def observe(self, results: Sequence[Result]) -> None:
        """Take what came of candidates."""
        self.results.update((each.key, each) for each in results)
        self._told.update((e.key[0], (e.candidate, e.latency_us)) for e in results)

    def ask(self, count: int) -> list[Candidate]:
        """Return so many candidates, none of them known where the space has others.

        The first are of chance, and nothing of them is pruned where that may be: a pruned network
        is told from its unpruned one, and that must be known before.
        """
        trained = [each for each in self.results.values() if not math.isnan(each.accuracy)]
        if len(trained) < INITIAL:
            return self._by_chance(count)
        pool = self._pool()
        chosen = self._chosen(pool, trained, count) if pool else []
        rest = [self.space.sample(self._random) for _ in range(count - len(chosen))]
        return [*chosen, *rest]

    def _by_chance(self, count: int) -> list[Candidate]:
        """Return candidates of chance; what is pruned is among them where all else is known."""
        known = {key for key, _ in self.results}
        drawn: dict[str, Candidate] = {}
        for part in (self._first, self.space):
            for _ in range(MOST_DRAWS * count):
                if len(drawn) < count:
                    candidate = part.sample(self._random)
                    if candidate_key(candidate) not in known:
                        drawn[candidate_key(candidate)] = candidate
        rest = [self.space.sample(self._random) for _ in range(count - len(drawn))]
        return [*drawn.values(), *rest]

    # What an algorithm around it decides.

    def is_open(self, candidate: Candidate) -> bool:
        """Tell whether a candidate of the pool may be the next that is proposed."""
        return True

    def picked(self, candidate: Candidate) -> None:
        """Take what is proposed next."""

    def variant(self, parent: Candidate, generator: random.Random) -> Candidate:
        """Return a candidate near one of the best."""
        return self.space.mutate(parent, generator, MUTATION_RATE)

    def _chosen(
        self, pool: Sequence[Candidate], trained: Sequence[Result], count: int
    ) -> list[Candidate]:
        """Return the candidates of largest gain, each weighed with those before it believed."""
        points = np.stack([self._encode(each) for each in pool])
        whole = np.hstack([points, _kept(pool), np.zeros((len(pool), 1))])
        log_us, log_deviation = self._latency()(np.hstack([points, _kept(pool)]))
        for place, each in enumerate(pool):
            self._believe(place, each, log_us, log_deviation)
        model = self._accuracy(trained)
        believed = list(trained)
        chosen: list[int] = []
        left = ASKED_EACH * count
        while len(chosen) < count:
            told = Told(*model(whole), log_us, log_deviation)
            gains = gain(told, believed, self.reward)
            is_barred = [not self.is_open(each) for each in pool]
            gains[is_barred] = NOTHING
            gains[[*chosen, *(n for n, each in enumerate(pool) if self._cannot_run(each))]] = (
                NOTHING
            )
            place = int(np.argmax(gains))
            if gains[place] < 0:
                break
            if left > 0 and self._ask_compiler(pool[place]):
                left -= 1
                self._believe(place, pool[place], log_us, log_deviation)
                continue
            # What is chosen is believed to be as expected, so that the next is another.
            accuracy = min(1.0, max(0.0, float(told.accuracy[place])))
            chosen.append(place)
            self.picked(pool[place])
            believed.append(Result(pool[place], WHOLE, accuracy, math.exp(log_us[place])))
            model = self._accuracy(believed, (model.length, model.noise))
        return [pool[place] for place in chosen]

    def _ask_compiler(self, candidate: Candidate) -> bool:
        """Ask for a latency that is not known, and tell whether it was not."""
        key = candidate_key(candidate)
        if self.latency_of is None or key in self._told:
            return False
        self._told[key] = candidate, self.latency_of(candidate)
        return True

    def _believe(
        self, place: int, candidate: Candidate, log_us: np.ndarray, deviation: np.ndarray
    ) -> None:
        """Put a latency that is known in the place of the surrogate's."""
        known = self._told.get(candidate_key(candidate))
        if known is not None and math.isfinite(known[1]):
            log_us[place], deviation[place] = math.log(known[1]), EXACT

    def _cannot_run(self, candidate: Candidate) -> bool:
        known = self._told.get(candidate_key(candidate))
        return known is not None and math.isinf(known[1])

    def _accuracy(
        self, trained: Sequence[Result], chosen: tuple[float, float] | None = None
    ) -> GaussianProcess:
        """Return accuracies by candidate and share of the training."""
        shares = np.array([[math.log(each.share)] for each in trained])
        candidates = [each.candidate for each in trained]
        known = np.stack([self._encode(each) for each in candidates])
        values = np.array([each.accuracy for each in trained])
        return GaussianProcess(np.hstack([known, _kept(candidates), shares]), values, chosen)

    def _latency(self) -> GaussianProcess:
        """Return logarithms of latencies by candidate."""
        timed = [(each, us) for each, us in self._told.values() if math.isfinite(us)]
        points = np.stack([self._encode(each) for each, _ in timed])
        points = np.hstack([points, _kept([each for each, _ in timed])])
        return GaussianProcess(points, np.log([us for _, us in timed]))

    def _pool(self) -> list[Candidate]:
        parents = self.parents()
        pool = [self._first.sample(self._random) for _ in range(POOL // 2)]
        pool += [self.space.sample(self._random) for _ in range(POOL - POOL // 2)]
        for place in range(POOL if parents else 0):
            pool.append(self.variant(parents[place % len(parents)], self._random))
        known = {key for key, _ in self.results}
        unique = {candidate_key(each): each for each in pool}
        return [each for key, each in unique.items() if key not in known]

    def parents(self) -> list[Candidate]:
        """Return the best networks so far: of the front, where that is asked for, all of it."""
        results = [each for each in self.results.values() if self.reward(each) > 0]
        usable = [each for each in results if self._is_ours(each.candidate)]
        if self.reward.is_front:
            return [each.candidate for each in pareto_front(usable)]
        ranked = sorted(usable, key=lambda each: -self.reward(each))
        return [each.candidate for each in ranked[:PARENTS]]

    def _is_ours(self, candidate: Candidate) -> bool:
        try:
            self.space.check(candidate)
        except SpaceError:
            return False
        return True


def _kept(candidates: Sequence[Candidate]) -> np.ndarray:
    """Return the doublings of the weights that candidates keep, and of those that they have."""
    counts = np.array([kept_weights(each) for each in candidates], dtype=float)
    return np.log2(counts)
