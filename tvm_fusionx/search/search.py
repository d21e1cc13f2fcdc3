"""The loop: candidates are proposed, timed, trained where they are fast enough, and told of.

Latencies are measured by this process while nothing trains. A batch is told to the strategy in the
order in which it was proposed, whichever training ended first, so a search is repeated by its seed
and its journal: resuming is the same walk, with the journal's answers in the place of trainings.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvm_fusionx.errors import TuningError
from tvm_fusionx.search.executor import PARENT, Ended, Executor, Job
from tvm_fusionx.search.inheritance import Ancestor, nearest
from tvm_fusionx.search.journal import WHOLE, Result, SearchJournal
from tvm_fusionx.search.reward import Reward, pareto_front
from tvm_fusionx.search.space import Candidate, candidate_key
from tvm_fusionx.search.strategies import Informed, Observer, Strategy

TOO_SLOW = "slower than the limit"
CANNOT_RUN = "a kernel of it cannot be built or run"
# The folder of the journal that has one for each network, and its weights in it.
TRIALS = "trials"
HALVING, MEDIAN = "halving", "median"
STOPS = (HALVING, MEDIAN)
# Batches in a row without anything new: the strategy has settled, or the space is told.
MOST_IN_VAIN = 30

LatencyOf = Callable[[Mapping[str, Any]], float]
"""Returns the microseconds of a candidate."""


@dataclass(frozen=True)
class SearchSettings:
    """How a search goes.

    Attributes
    ----------
    reward
        What it wants.
    trials
        Candidates to train at most; those that are too slow cost nothing and do not count.
    budget_seconds
        How long it may take; no batch begins later.
    batch
        Candidates that are proposed at once.
    rungs
        Shares of the training, ascending to 1: of a batch the better ``1 / keep`` of each rung go
        on to the next (successive halving). ``(1.0,)`` trains everything whole.
    keep
        As told.
    stop
        Which of a rung go on: ``"halving"`` those, ``"median"`` the ones that are no worse than the
        median of all that ever stood on the rung.
    seed
        Of the trainings.
    """

    reward: Reward = field(default_factory=Reward)
    trials: int = 100
    budget_seconds: float = math.inf
    batch: int = 4
    rungs: tuple[float, ...] = (WHOLE,)
    keep: int = 3
    stop: str = HALVING
    seed: int = 0

    def __post_init__(self) -> None:
        rising = list(self.rungs) == sorted(set(self.rungs)) and all(r > 0 for r in self.rungs)
        if self.stop not in STOPS:
            raise ValueError(f"stop: expected one of {', '.join(STOPS)}; found {self.stop!r}.")
        if not rising or self.rungs[-1:] != (WHOLE,) or self.batch < 1 or self.keep < 2:
            raise ValueError(
                f"search settings: expected rungs that rise to 1, a batch of 1 at least, and keep "
                f"of 2 at least; found {self.rungs}, {self.batch}, {self.keep}. Correct them."
            )


@dataclass(frozen=True)
class SearchOutcome:
    """What a search found.

    Attributes
    ----------
    best
        The result of the best candidate that was trained whole and is as fast as asked for.
    front
        The Pareto front of accuracy and latency.
    results
        All, in the order in which they were judged.
    why_ended
        In words.
    """

    best: Result
    front: tuple[Result, ...]
    results: tuple[Result, ...]
    why_ended: str


@dataclass
class Search:
    """A search that goes on until its budget is spent.

    Parameters
    ----------
    strategy
        Proposes.
    journal
        Keeps everything.
    latency_of
        Tells latencies.
    executor
        Trains.
    settings
        How it goes.
    on_result
        Told of every candidate that was judged.
    clock
        Seconds; for tests.
    ancestors
        Networks that were trained before, whose weights those of this search may begin with as
        they may with each other's.
    """

    strategy: Strategy
    journal: SearchJournal
    latency_of: LatencyOf
    executor: Executor
    settings: SearchSettings = field(default_factory=SearchSettings)
    on_result: Callable[[Search, Result], None] = lambda search, result: None
    clock: Callable[[], float] = time.monotonic
    ancestors: Sequence[Ancestor] = ()

    def __post_init__(self) -> None:
        if isinstance(self.strategy, Informed):
            self.strategy.latency_of = self._asked_latency
        self.judged: dict[str, Result] = {}
        self._rungs: dict[float, dict[str, float]] = {}
        self.began = self.clock()
        self._trained_here: set[str] = set()

    def run(self) -> SearchOutcome:
        """Search until the trials or the time are spent, and return what was found.

        Raises
        ------
        TuningError
            Nothing that was trained is as fast as asked for.
        """
        settings, why = self.settings, "all trials are done"
        in_vain = 0
        while self.trained < settings.trials:
            if self.spent_seconds >= settings.budget_seconds:
                why = "the time is spent"
                break
            before = len(self.judged)
            proposed = self.strategy.ask(settings.batch)
            results = self._judge(proposed)
            self.strategy.tell([settings.reward(each) for each in results])
            if isinstance(self.strategy, Observer):
                self.strategy.observe(results)
            in_vain = 0 if len(self.judged) > before else in_vain + 1
            if in_vain >= MOST_IN_VAIN:
                why = "nothing new is proposed"
                break
        return self.outcome(why)

    @property
    def trained(self) -> int:
        """Return how many candidates were fast enough to be trained so far."""
        return sum(each.failure not in (TOO_SLOW, CANNOT_RUN) for each in self.judged.values())

    @property
    def spent_seconds(self) -> float:
        """Return how long it has been going on in this process."""
        return self.clock() - self.began

    @property
    def seconds_left(self) -> float:
        """Return how long it will go on at most, at its pace so far; infinite where unknown."""
        budget = max(self.settings.budget_seconds - self.spent_seconds, 0.0)
        if not self._trained_here:
            return budget
        left = max(self.settings.trials - self.trained, 0)
        return min(budget, self.spent_seconds / len(self._trained_here) * left)

    @property
    def best(self) -> Result | None:
        """Return the best result so far of those trained whole; None where there is none."""
        reward = self.settings.reward
        whole = [e for e in self.judged.values() if e.share == WHOLE and reward.meets(e)]
        return max(whole, key=reward, default=None)

    def outcome(self, why: str) -> SearchOutcome:
        """Return what was found so far; raises as :meth:`run`."""
        if self.best is None:
            reasons = [each.failure for each in self.judged.values() if each.failure]
            raise TuningError(
                "search",
                expected="a network that trains and is as fast, and as accurate, as asked for",
                found=f"none of {len(self.judged)}; the last: {(reasons or ['not trained'])[-1]}",
                next_step="Allow more time, a larger latency, or smaller networks in the space.",
            )
        whole = [each for each in self.judged.values() if each.share == WHOLE]
        return SearchOutcome(
            self.best, tuple(pareto_front(whole)), tuple(self.judged.values()), why
        )

    def _judge(self, proposed: Sequence[Candidate]) -> list[Result]:
        """Return a result for each candidate, equal ones judged once."""
        unique = {candidate_key(candidate): candidate for candidate in proposed}
        latencies: dict[str, float] = {}
        final: dict[str, Result] = {}
        for key, candidate in unique.items():
            told = self.journal.latency_us(candidate)
            latencies[key] = self.latency_of(candidate) if told is None else told
            if not self.settings.reward.allows(latencies[key]):
                why = TOO_SLOW if math.isfinite(latencies[key]) else CANNOT_RUN
                final[key] = Result(candidate, latency_us=latencies[key], failure=why)
                if self.journal.result(candidate) is None:
                    self.journal.add(final[key])
        going = {key: each for key, each in unique.items() if key not in final}
        for place, share in enumerate(self.settings.rungs):
            trained = self._train(going, share, latencies)
            final.update(trained)
            if place + 1 < len(self.settings.rungs):
                going = self._better(trained, going, share)
        for key in unique:
            if key not in self.judged:
                self.judged[key] = final[key]
                self.on_result(self, final[key])
        return [final[candidate_key(candidate)] for candidate in proposed]

    def _asked_latency(self, candidate: Mapping[str, Any]) -> float:
        """Return a latency for the strategy, and keep it: it decides what is proposed."""
        told = self.journal.latency_us(candidate)
        if told is None:
            told = self.latency_of(candidate)
            self.journal.keep_latency(candidate, told)
        return told

    def _parent(self, candidate: Candidate) -> dict[str, str]:
        """Return the folder of the network that a training may begin with, of earlier batches."""
        known = [*self.ancestors]
        for result in self.judged.values():
            if result.share == WHOLE and not math.isnan(result.accuracy):
                folder = self.journal.folder / TRIALS / candidate_key(result.candidate)
                known.append(Ancestor(result.candidate, result.accuracy, folder))
        found = nearest(candidate, known)
        return {} if found is None else {PARENT: str(found.folder)}

    def _better(
        self, trained: Mapping[str, Result], going: Mapping[str, Candidate], share: float
    ) -> dict[str, Candidate]:
        usable = [key for key in trained if not math.isnan(trained[key].accuracy)]
        reward = self.settings.reward
        if self.settings.stop == MEDIAN:
            stood = self._rungs.setdefault(share, {})
            stood.update({key: trained[key].accuracy for key in usable})
            middle = statistics.median(stood.values()) if stood else 0.0
            return {key: going[key] for key in usable if trained[key].accuracy >= middle}
        ranked = sorted(trained, key=lambda key: -reward(trained[key]))
        kept = ranked[: math.ceil(len(ranked) / self.settings.keep)]
        return {key: going[key] for key in kept if key in usable}

    def _train(
        self, going: Mapping[str, Candidate], share: float, latencies: Mapping[str, float]
    ) -> dict[str, Result]:
        """Train candidates for a share, each until it ends well or was cut short too often."""
        done: dict[str, Result] = {}
        while True:
            jobs: list[Job] = []
            keys: list[str] = []
            for key, candidate in going.items():
                known = self.journal.result(candidate, share)
                if known is not None:
                    done[key] = replace(known, latency_us=latencies[key])
                    continue
                folder = self.journal.folder / TRIALS / key
                trial = {"share": share, "seed": self.settings.seed, "folder": str(folder)}
                trial |= self._parent(candidate)
                jobs.append(Job(len(jobs), candidate, trial))
                keys.append(key)
            if not jobs:
                # In the order of the proposals, whichever the journal knew before.
                return {key: done[key] for key in going}
            numbers: dict[int, int] = {}

            def begin(job: Job, numbers: dict[int, int] = numbers) -> None:
                numbers[job.number] = self.journal.start(job.candidate, share)

            for ended in self.executor.run(jobs, begin):
                # What the journal answers takes no time.
                self._trained_here.add(keys[ended.number])
                number, key = numbers[ended.number], keys[ended.number]
                if ended.reason:
                    self.journal.fail(number, ended.reason)
                    continue
                self.journal.end(number, _result(going[key], share, latencies[key], ended))


def _result(candidate: Candidate, share: float, latency_us: float, ended: Ended) -> Result:
    rest = dict(ended.returned)
    accuracy, seconds = float(rest.pop("accuracy")), float(rest.pop("seconds", 0.0))
    return Result(candidate, share, accuracy, latency_us, seconds, details=rest)
