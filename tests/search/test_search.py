from __future__ import annotations

import json
import math
import multiprocessing
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.search.quick_training import accuracy_of
from tests.search.small_spaces import TRANSFORMERS, transformers
from tests.search.test_executor import TRAIN
from tvm_fusionx.errors import TuningError
from tvm_fusionx.search.caps import CapsStrategy
from tvm_fusionx.search.executor import PARENT, Ended, Executor, Job, ProcessExecutor
from tvm_fusionx.search.inheritance import Ancestor
from tvm_fusionx.search.journal import FILE, MOST_ATTEMPTS, Result, SearchJournal
from tvm_fusionx.search.reward import Reward
from tvm_fusionx.search.search import (
    CANNOT_RUN,
    MEDIAN,
    TOO_SLOW,
    TRIALS,
    Search,
    SearchOutcome,
    SearchSettings,
)
from tvm_fusionx.search.space import Candidate, Space, candidate_key
from tvm_fusionx.search.space_file import parse_space
from tvm_fusionx.search.strategies import EvolutionStrategy, RandomStrategy


class Here:
    """Trains in this process, and remembers what."""

    workers = 2

    def __init__(self, fails: Callable[[Job], bool] = lambda job: False) -> None:
        self.fails = fails
        self.trained: list[tuple[str, float]] = []

    def run(self, jobs: Sequence[Job], on_start: Callable[[Job], None]) -> Iterator[Ended]:
        # The last first: a search must not depend on which ends first.
        for job in reversed(jobs):
            on_start(job)
            share = job.trial["share"]
            self.trained.append((candidate_key(job.candidate), share))
            if self.fails(job):
                yield Ended(job.number, reason="it failed")
            else:
                accuracy = accuracy_of(dict(job.candidate["choices"]), share)
                yield Ended(job.number, {"accuracy": accuracy, "seconds": 1.0})


def latency_of(candidate: Mapping[str, Any]) -> float:
    return 10.0 * sum(
        value for name, value in candidate["choices"].items() if name.endswith("feed_forward")
    )


def search_of(folder: Path, executor: Executor | None = None, **settings: Any) -> Search:
    return Search(
        EvolutionStrategy(transformers(), seed=3, population=6),
        SearchJournal(folder, "space", "training"),
        latency_of,
        executor or Here(),
        SearchSettings(**{"trials": 24, "reward": Reward(500.0), **settings}),
    )


def found(search: Search) -> SearchOutcome:
    try:
        return search.run()
    finally:
        search.journal.close()


def test_the_best_that_is_fast_enough_is_found(tmp_path: Path) -> None:
    executor = Here()
    outcome = found(search_of(tmp_path, executor))
    fast = [each for each in outcome.results if each.latency_us <= 500]
    assert outcome.best.accuracy == max(each.accuracy for each in fast)
    slow = [each for each in outcome.results if each.latency_us > 500]
    assert slow
    assert all(each.failure == TOO_SLOW and math.isnan(each.accuracy) for each in slow)
    # Nothing is trained twice, and nothing that is too slow at all.
    assert len(executor.trained) == len(set(executor.trained)) == len(fast)
    assert len(fast) >= 24
    assert set(map(id, outcome.front)) <= set(map(id, fast))


def test_what_cannot_be_built_is_told_apart(tmp_path: Path) -> None:
    executor = Here()
    search = search_of(tmp_path, executor, reward=Reward())
    search.latency_of = lambda candidate: (
        math.inf if candidate["choices"]["layers"] == 1 else latency_of(candidate)
    )
    outcome = found(search)
    broken = [each for each in outcome.results if each.candidate["choices"]["layers"] == 1]
    assert broken
    assert {each.failure for each in broken} == {CANNOT_RUN}
    assert len(executor.trained) == len(outcome.results) - len(broken)


def test_with_a_soft_limit_everything_is_trained(tmp_path: Path) -> None:
    outcome = found(search_of(tmp_path, reward=Reward(500.0, -0.07)))
    assert not any(math.isnan(each.accuracy) for each in outcome.results)


def test_of_a_batch_the_better_go_on(tmp_path: Path) -> None:
    executor = Here()
    outcome = found(
        search_of(tmp_path, executor, rungs=(0.1, 1.0), batch=8, keep=4, reward=Reward())
    )
    first = {key for key, share in executor.trained if share == 0.1}
    whole = {key for key, share in executor.trained if share == 1.0}
    assert whole < first
    assert len(whole) <= math.ceil(len(first) / 4) + 3
    assert outcome.best.share == 1.0
    assert {candidate_key(each.candidate) for each in outcome.front} <= whole


def test_what_is_worse_than_the_median_of_a_rung_stops(tmp_path: Path) -> None:
    executor = Here()
    batches: list[list[str]] = []

    class Noted(EvolutionStrategy):
        def ask(self, count: int) -> list[Candidate]:
            asked = super().ask(count)
            batches.append([candidate_key(each) for each in asked])
            return asked

    search = search_of(tmp_path, executor, rungs=(0.1, 1.0), stop=MEDIAN, reward=Reward())
    search.strategy = Noted(transformers(), seed=3, population=6)
    outcome = found(search)
    early = {
        candidate_key(each.candidate): accuracy_of(dict(each.candidate["choices"]), 0.1)
        for each in outcome.results
    }
    whole = {key for key, share in executor.trained if share == 1.0}
    stood: dict[str, float] = {}
    expected = set()
    for batch in batches:
        stood |= {key: early[key] for key in batch}
        middle = statistics.median(stood.values())
        expected |= {key for key in batch if early[key] >= middle}
    assert whole == expected
    assert len(whole) < len(early)
    assert outcome.best.share == 1.0


def test_a_strategy_that_observes_is_told_all(tmp_path: Path) -> None:
    class Watching(RandomStrategy):
        seen: ClassVar[list[Result]] = []

        def observe(self, results: Sequence[Result]) -> None:
            self.seen.extend(results)

    search = search_of(tmp_path, trials=6)
    search.strategy = Watching(transformers(), 0)
    outcome = found(search)
    assert {each.key for each in Watching.seen} == {each.key for each in outcome.results}


def test_the_best_is_as_accurate_as_asked_for(tmp_path: Path) -> None:
    outcome = found(search_of(tmp_path / "some", reward=Reward(least_accuracy=0.6)))
    enough = [each for each in outcome.results if each.accuracy >= 0.6]
    assert outcome.best.latency_us == min(each.latency_us for each in enough)
    with pytest.raises(TuningError, match="as accurate"):
        found(search_of(tmp_path / "none", reward=Reward(least_accuracy=1.0)))


def test_a_trial_that_fails_is_tried_again_and_given_up(tmp_path: Path) -> None:
    executor = Here(lambda job: job.candidate["choices"]["layers"] == 1)
    outcome = found(search_of(tmp_path, executor, reward=Reward()))
    failed = [each for each in outcome.results if each.failure]
    assert failed
    for each in failed:
        assert each.candidate["choices"]["layers"] == 1
        assert executor.trained.count((candidate_key(each.candidate), 1.0)) == MOST_ATTEMPTS


def test_nothing_found_is_told(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match=f"none of .*{TOO_SLOW}"):
        found(search_of(tmp_path, reward=Reward(1.0)))


def test_time_and_novelty_end_it(tmp_path: Path) -> None:
    search = search_of(tmp_path / "time", reward=Reward(), budget_seconds=10.0)
    ticks = iter(range(0, 1000, 4))
    search.clock = lambda: float(next(ticks))
    search.began = 0.0
    assert found(search).why_ended == "the time is spent"
    assert len(search.judged) < 24
    small: Space = parse_space(
        {**TRANSFORMERS, "layers": [1], "hidden": [16], "heads": [2], "feed_forward": [16]}
    )
    journal = SearchJournal(tmp_path / "novelty", "space", "training")
    tired = Search(RandomStrategy(small), journal, latency_of, Here())
    assert found(tired).why_ended == "nothing new is proposed"


def test_what_is_left_is_told_by_the_pace_and_the_budget(tmp_path: Path) -> None:
    clock = iter(range(0, 10**6, 10))
    left: list[float] = []

    def tell(search: Search, result: Result) -> None:
        left.append(search.seconds_left)

    made = search_of(tmp_path / "a", trials=12)
    made.clock, made.on_result, made.began = lambda: next(clock), tell, 0.0
    assert math.isinf(made.seconds_left)
    found(made)
    assert left[-1] == 0.0
    assert 0 < left[0] < math.inf
    # All is in the journal: nothing is known of the pace, and the budget is what is left.
    again = search_of(tmp_path / "a", trials=12, budget_seconds=500.0)
    again.clock, again.began = lambda: 100.0, 0.0
    found(again)
    assert again.seconds_left == 400.0


@pytest.mark.parametrize(
    "settings",
    [{"stop": "never"}, {"rungs": (1.0, 0.5)}, {"rungs": (0.5,)}, {"batch": 0}, {"keep": 1}],
)
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        SearchSettings(**settings)


def _plain(outcome: SearchOutcome) -> list[tuple[Any, ...]]:
    def row(result: Result) -> tuple[Any, ...]:
        return (candidate_key(result.candidate), result.share, repr(result.accuracy))

    return [row(outcome.best), *map(row, outcome.front), *map(row, outcome.results)]


def _by_caps(folder: Path, executor: Executor, asked: list[str], **more: Any) -> Search:
    """Return a search for the front that asks for latencies, and notes which."""

    def told(candidate: Mapping[str, Any]) -> float:
        asked.append(candidate_key(candidate))
        return latency_of(candidate)

    reward = Reward(is_front=True)
    strategy = CapsStrategy(transformers(), 1, reward)
    journal = SearchJournal(folder, "space", "training")
    return Search(strategy, journal, told, executor, SearchSettings(reward, 16), **more)


class _Noting(Here):
    """Notes whose weights each training may begin with."""

    def __init__(self) -> None:
        super().__init__()
        self.parents: dict[str, str] = {}

    def run(self, jobs: Sequence[Job], on_start: Callable[[Job], None]) -> Iterator[Ended]:
        for job in jobs:
            if PARENT in job.trial:
                self.parents[candidate_key(job.candidate)] = job.trial[PARENT]
        yield from super().run(jobs, on_start)


def test_latencies_that_a_strategy_asked_for_are_kept(tmp_path: Path) -> None:
    asked: list[str] = []
    expected = found(_by_caps(tmp_path, Here(), asked))
    proposed = {candidate_key(each.candidate) for each in expected.results}
    # All that was proposed was asked for before, and nothing twice.
    assert proposed <= set(asked)
    assert len(asked) == len(set(asked))
    again: list[str] = []
    assert _plain(found(_by_caps(tmp_path, Here(), again))) == _plain(expected)
    assert again == []


def test_networks_begin_with_weights_of_earlier_batches(tmp_path: Path) -> None:
    executor = _Noting()
    outcome = found(_by_caps(tmp_path, executor, []))
    order = [candidate_key(each.candidate) for each in outcome.results]
    assert not set(executor.parents) & set(order[:4])
    assert executor.parents
    for child, folder in executor.parents.items():
        parent = Path(folder)
        assert parent.parent == tmp_path / TRIALS
        assert order.index(parent.name) // 4 < order.index(child) // 4


def test_those_of_a_search_before_are_ancestors_too(tmp_path: Path) -> None:
    first = found(_by_caps(tmp_path / "first", Here(), []))
    known = [Ancestor(each.candidate, 1.0, tmp_path / "given") for each in first.results]
    executor = _Noting()
    found(_by_caps(tmp_path / "second", executor, [], ancestors=known))
    assert str(tmp_path / "given") in executor.parents.values()


@pytest.mark.parametrize("left_after", range(1, 12, 2))
def test_what_was_trained_first_does_not_matter(tmp_path: Path, left_after: int) -> None:
    class Leaving(Here):
        """Is left after so many trainings, the last of a batch among them and not the first."""

        def run(self, jobs: Sequence[Job], on_start: Callable[[Job], None]) -> Iterator[Ended]:
            for ended in super().run(jobs, on_start):
                yield ended
                if len(self.trained) == left_after:
                    raise KeyboardInterrupt

    how: dict[str, Any] = {"rungs": (0.5, 1.0), "keep": 2, "trials": 12}
    expected = found(search_of(tmp_path / "whole", **how))
    with pytest.raises(KeyboardInterrupt):
        found(search_of(tmp_path / "left", Leaving(), **how))
    assert _plain(found(search_of(tmp_path / "left", **how))) == _plain(expected)


def _searching(folder: Path) -> None:
    found(search_of(folder, ProcessExecutor(TRAIN), rungs=(0.5, 1.0), keep=2, trials=16))


def test_killed_anywhere_it_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = found(search_of(tmp_path / "whole", rungs=(0.5, 1.0), keep=2, trials=16))
    monkeypatch.setenv("QUICK_SECONDS", "0.01")
    folder = tmp_path / "killed"
    generator = random.Random(5)
    context = multiprocessing.get_context("fork")
    kills = 0
    for _ in range(8):
        process = context.Process(target=_searching, args=(folder,))
        process.start()
        process.join(generator.uniform(0.05, 0.6))
        if process.exitcode is not None:
            break
        process.kill()
        process.join()
        kills += 1
    assert kills >= 3
    again = search_of(folder, ProcessExecutor(TRAIN), rungs=(0.5, 1.0), keep=2, trials=16)
    outcome = found(again)
    failures = [each.failure for each in outcome.results if each.failure]
    # The limit of the latency, and nothing that the kills did.
    assert set(failures) <= {TOO_SLOW}, failures
    assert _plain(outcome) == _plain(expected)
    # What ended well never begins again.
    ended: set[tuple[str, float]] = set()
    running: dict[int, tuple[str, float]] = {}
    for line in (folder / FILE).read_text().splitlines()[1:]:
        row = json.loads(line)
        if row["event"] == "start":
            running[row["trial"]] = candidate_key(row["candidate"]), row["share"]
            assert running[row["trial"]] not in ended
        elif row["event"] == "end":
            ended.add(running[row["trial"]])
