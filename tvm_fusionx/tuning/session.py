"""The search: rounds of candidates, block after block, until the budget is spent."""

from __future__ import annotations

import math
import queue
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from tvm_fusionx.errors import OutputFileError, TuningError
from tvm_fusionx.tuning.allocation import Progress, least_seconds, next_task
from tvm_fusionx.tuning.bench import Bench
from tvm_fusionx.tuning.build_candidates import DUPLICATE, INVALID, Candidate, CandidateBuilder
from tvm_fusionx.tuning.cost_model import CostModel, TaskFeatures
from tvm_fusionx.tuning.failures import Failures
from tvm_fusionx.tuning.journal import Journal
from tvm_fusionx.tuning.outcome import Outcome
from tvm_fusionx.tuning.peak import Peak
from tvm_fusionx.tuning.search import TVM, Search, make_search
from tvm_fusionx.tuning.second_timing import time_again
from tvm_fusionx.tuning.settings import Settings
from tvm_fusionx.tuning.task import TRACE, Choice, Task

# Part of a time budget that the search may use; the rest is for the comparisons at the end.
SEARCH_SHARE = 0.8
# A search that proposes nothing new this often in a row has nothing left.
MOST_EMPTY_ASKS = 8
# Random candidates among which an old model chooses a block's first.
DRAWN_FOR_TRANSFER = 256


class Session:
    """Searches the tasks of one model on one kind of device.

    Parameters
    ----------
    tasks
        What to search; those without choices are only timed.
    benches
        The devices; candidates of a round are shared among them.
    builder
        Makes libraries of candidates.
    journal
        Where every trial is written down; trials of this session that it knows are not repeated.
    settings
        Budget and search.
    peak
        The device's best rates, where they were measured.
    on_trial
        Called after each trial.
    clock
        Returns seconds; for tests.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        benches: Sequence[Bench],
        builder: CandidateBuilder,
        journal: Journal,
        settings: Settings,
        peak: Peak | None = None,
        on_trial: Callable[[Session], None] = lambda session: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.journal = journal
        self.benches = list(benches)
        self.builder = builder
        self.peak = peak
        self.on_trial = on_trial
        self.progresses: dict[str, Progress] = {
            task.key: Progress(task, math.inf, least_seconds(task, peak)) for task in tasks
        }
        self.failures = Failures()
        self.measured = 0
        self.trials = 0
        self.model = CostModel()
        self._clock = clock
        self._started = clock() - journal.spent_seconds
        self._searches: dict[str, Search] = {}
        self._references: dict[str, list[np.ndarray]] = {}
        self._kernels: dict[str, dict[str, Outcome]] = defaultdict(dict)
        self._lock = threading.Lock()
        self._free: queue.Queue[Bench] = queue.Queue()
        for bench in self.benches:
            self._free.put(bench)
        self._random = random.Random(settings.seed)

    @property
    def spent_seconds(self) -> float:
        """Return the time since the session began, of all its parts together."""
        return self._clock() - self._started

    @property
    def is_over(self) -> bool:
        """Tell whether the budget for the search is spent."""
        budget = self.settings.budget_seconds
        late = budget is not None and self.spent_seconds >= budget * SEARCH_SHARE
        return late or self.trials >= self.settings.most_trials

    # The search.

    def time_defaults(self) -> None:
        """Time every block with its template's default values."""
        if self.settings.transfer:
            self._learn_from_history()
        for progress in self.progresses.values():
            task = progress.task
            self.journal.add_task(task.key, TaskFeatures.of(task).to_json())
            outcome = self.journal.outcome(task.key, task.template, task.space.default)
            # The model runs its defaults anyway: what kept one from being timed may be mended.
            if outcome is None or outcome.failure is not None:
                (candidate,) = self.builder.build(task, [task.space.default])
                outcome = self._try(candidate)
            progress.default_seconds = outcome.least_seconds
            if outcome.failure is not None:
                self.failures.add(task, outcome)
            self.on_trial(self)
        self._raise_peak()

    def _raise_peak(self) -> None:
        """Raise the peak to what the defaults reach, and the limits of all blocks with it."""
        if self.peak is None:
            return
        for progress in self.progresses.values():
            if math.isfinite(progress.default_seconds):
                self.peak = self.peak.raised_by(progress.task.work, progress.default_seconds)
        for progress in self.progresses.values():
            progress.least_seconds = least_seconds(progress.task, self.peak)

    def search(self) -> None:
        """Measure candidates until the budget is spent or every space is.

        Raises
        ------
        TuningError
            Candidates were tried and none could be measured.
        DeviceLostError
            The device stays away; every trial so far is in the journal.
        """
        # What this session tried before it was ended, of whichever block, is a part of its budget.
        for task in [each.task for each in self.progresses.values()]:
            if self._known(task):
                self._search_of(task)
        while not self.is_over:
            progress = next_task(self.progresses.values())
            if progress is None:
                break
            self._round(progress)
        if not self.measured and self.failures:
            raise TuningError(
                "tuning",
                expected="candidates that run on the device",
                found=f"none, but {self.failures}",
                next_step="`fusionx doctor` checks the device; the journal "
                f"{self.journal.path} has every message.",
            )

    def _round(self, progress: Progress) -> None:
        task = progress.task
        search = self._search_of(task)
        choices = self._fresh(progress, search)
        outcomes = self._outcomes(task, choices)
        self._tell(progress, search, choices, outcomes)
        self._add_round(progress, outcomes)

    def _search_of(self, task: Task) -> Search:
        search = self._searches.get(task.key)
        if search is None:
            settings = self.settings
            with self._bench() as bench:
                time_again(self.progresses[task.key], self.builder, bench)
            self._raise_peak()
            search = make_search(
                settings.tuner,
                task,
                self.builder.device.tvm_target(),
                space=settings.space,
                algorithm=settings.algorithm,
                seed=settings.seed,
                batch=settings.batch,
                cost_model=self.model,
            )
            self._searches[task.key] = search
            progress = self.progresses[task.key]
            search.tell([task.space.default], [progress.default_seconds])
            self._replay(progress, search)
        return search

    def _replay(self, progress: Progress, search: Search) -> None:
        """Teach a search what a part of this session before it was killed has measured."""
        task = progress.task
        known = self._known(task)
        if not known:
            return
        choices, outcomes = [each[0] for each in known], [each[1] for each in known]
        for outcome in outcomes:
            self._count(task, outcome)
        self._tell(progress, search, choices, outcomes)
        self._add_round(progress, outcomes)

    def _known(self, task: Task) -> list[tuple[Choice, Outcome]]:
        """Return the candidates of a block that this session has tried before it was ended."""
        return [
            (choice, outcome)
            for template, choice, outcome in self.journal.outcomes(task.key)
            if template == task.template and choice != task.space.default
        ]

    @staticmethod
    def _add_round(progress: Progress, outcomes: Sequence[Outcome]) -> None:
        taken = [outcome.least_seconds for outcome in outcomes]
        spent = sum(
            outcome.failure != INVALID and outcome.detail != DUPLICATE for outcome in outcomes
        )
        progress.add_round(min(taken, default=math.inf), spent)

    def _tell(
        self,
        progress: Progress,
        search: Search,
        choices: Sequence[Choice],
        outcomes: Sequence[Outcome],
    ) -> None:
        if not choices:
            return
        search.tell(choices, [outcome.least_seconds for outcome in outcomes])
        features = TaskFeatures.of(progress.task)
        for choice, outcome in zip(choices, outcomes, strict=True):
            if TRACE not in choice:
                self.model.add(features, choice, outcome.least_seconds, progress.default_seconds)

    def _fresh(self, progress: Progress, search: Search) -> list[dict[str, Any]]:
        """Return the next candidates that are not in the journal."""
        task = progress.task
        wanted = int(min(self.settings.batch, self.settings.most_trials - self.trials))
        chosen = [choice for _, choice in self.journal.cut_short(task.key)][:wanted]
        searches_knobs = self.settings.space != TVM and len(task.space) > 1
        is_first = searches_knobs and not progress.trials and not chosen
        if is_first and self.model.knows(TaskFeatures.of(task)):
            chosen = self._promising(task, wanted)
        empty = 0
        while len(chosen) < wanted and empty < MOST_EMPTY_ASKS:
            asked = search.ask(wanted - len(chosen))
            if not asked:
                break
            before = len(chosen)
            for choice in asked:
                known = self.journal.outcome(task.key, task.template, choice)
                if known is not None:
                    # Also what took the device with it in another session.
                    search.tell([choice], [known.least_seconds])
                elif choice not in chosen:
                    chosen.append(choice)
            empty = empty + 1 if len(chosen) == before else 0
        if not chosen:
            progress.is_exhausted = True
        return chosen

    def _promising(self, task: Task, wanted: int) -> list[dict[str, int]]:
        """Return what older trials of the template let hope for most, among random candidates."""
        size = len(task.space)
        drawn = self._random.sample(range(size), min(size, DRAWN_FOR_TRANSFER))
        candidates = [
            choice
            for choice in map(task.space.choice, drawn)
            if self.journal.outcome(task.key, task.template, choice) is None
        ]
        scores = self.model.predict(TaskFeatures.of(task), candidates)
        order = np.argsort(-scores, kind="stable")[:wanted]
        return [candidates[position] for position in order]

    def _learn_from_history(self) -> None:
        """Teach the cost model all trials of other sessions in the journal."""
        rows = list(self.journal.history())
        defaults = {
            row["task"]: outcome.least_seconds
            for row, _, choice, outcome in rows
            if choice == row.get("default")
        }
        for row, _, choice, outcome in rows:
            is_tried = outcome.failure != INVALID and choice != row.get("default")
            if is_tried and TRACE not in choice:
                with suppress(KeyError):
                    features = TaskFeatures.from_json(row)
                    self.model.add(features, choice, outcome.least_seconds, defaults[row["task"]])

    # Trials.

    def _outcomes(self, task: Task, choices: Sequence[Choice]) -> list[Outcome]:
        candidates = self.builder.build(task, choices, self._kernels[task.key])
        if len(self.benches) == 1 or len(candidates) <= 1:
            return [self._try(candidate) for candidate in candidates]
        with ThreadPoolExecutor(len(self.benches)) as pool:
            return list(pool.map(self._try, candidates))

    def _try(self, candidate: Candidate) -> Outcome:
        """Run one built candidate, with a line in the journal before and after."""
        task = candidate.task
        is_default = candidate.choice == task.space.default
        try:
            with self._bench() as bench:
                reference = None if is_default else self._reference(task, bench)
                if candidate.failure is None:
                    bench.expect()
                with self._lock:
                    trial = self.journal.start(task.key, task.template, candidate.choice)
                if candidate.failure == DUPLICATE:
                    known = self._kernels[task.key][candidate.kernel]
                    outcome = replace(known, detail=DUPLICATE)
                elif candidate.failure is not None:
                    outcome = Outcome(failure=candidate.failure, detail=candidate.detail)
                else:
                    outcome, outputs = self._run(bench, candidate, reference, trial)
                    if is_default and outputs is not None:
                        self._references[task.key] = outputs
        finally:
            with suppress(OSError):
                candidate.path.unlink()
        with self._lock:
            self.journal.end(trial, outcome, self.spent_seconds)
            if candidate.kernel:
                self._kernels[task.key].setdefault(candidate.kernel, outcome)
            if not is_default:
                self._count(task, outcome)
        if not is_default:
            self.on_trial(self)
        return outcome

    def _run(
        self, bench: Bench, candidate: Candidate, reference: list[np.ndarray] | None, trial: int
    ) -> tuple[Outcome, list[np.ndarray] | None]:
        """Run a built candidate; nothing is held against it where the tuner itself is stopped."""
        try:
            ran = bench.run(candidate.task, candidate.path, reference, candidate.images)
        except BaseException:
            with self._lock, suppress(OutputFileError):
                self.journal.abandon(trial)
            raise
        if ran[0].is_quarantined:
            # A device that stays away may have been unplugged: then the trial was cut short.
            bench.expect()
        return ran

    def _reference(self, task: Task, bench: Bench) -> list[np.ndarray] | None:
        """Return the default's outputs on the device, which candidates are compared with."""
        with self._lock:
            if task.key not in self._references:
                (candidate,) = self.builder.build(task, [task.space.default])
                _, outputs = bench.run(task, candidate.path, None, candidate.images)
                with suppress(OSError):
                    candidate.path.unlink()
                if outputs is not None:
                    self._references[task.key] = outputs
            return self._references.get(task.key)

    def _count(self, task: Task, outcome: Outcome) -> None:
        if outcome.detail == DUPLICATE:
            return
        if outcome.failure is None:
            self.measured += 1
        else:
            self.failures.add(task, outcome)
        if outcome.failure != INVALID:
            self.trials += 1

    @contextmanager
    def _bench(self) -> Iterator[Bench]:
        """Lend a device that no other thread uses."""
        bench = self._free.get()
        try:
            yield bench
        finally:
            self._free.put(bench)

    def best_choices(self, task: Task) -> list[dict[str, Any]]:
        """Return the candidates of a block that were faster than its default, the best first."""
        default = self.progresses[task.key].default_seconds
        found = sorted(
            (outcome.least_seconds, index, choice)
            for index, (template, choice, outcome) in enumerate(self.journal.outcomes(task.key))
            if template == task.template
            and choice != task.space.default
            and outcome.detail != DUPLICATE
            and outcome.least_seconds < default
        )
        return [choice for _, _, choice in found[: self.settings.finalists]]
