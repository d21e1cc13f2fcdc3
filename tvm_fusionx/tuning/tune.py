"""``fx.tune``: a model, a device and a budget; records come out."""

from __future__ import annotations

import hashlib
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import IRModule

from tvm_fusionx._tvm.interrupts import interruptible
from tvm_fusionx.build.fused_build import FusedBuild, build_fused
from tvm_fusionx.devices import Device, find_device
from tvm_fusionx.errors import DeviceError, RecordError, TuningError
from tvm_fusionx.inputs import Arrays, Params, check_inputs, inputs_of, random_inputs
from tvm_fusionx.measuring.places import data_folder, versions
from tvm_fusionx.output_file import AnyPath
from tvm_fusionx.processors.targets import TargetLike, is_cpu
from tvm_fusionx.records import Record, add_records, own_file
from tvm_fusionx.schedules import resolve_target, target_key
from tvm_fusionx.threads import threads_in_use
from tvm_fusionx.tuning.allocation import next_task
from tvm_fusionx.tuning.bench import Bench
from tvm_fusionx.tuning.build_candidates import CandidateBuilder
from tvm_fusionx.tuning.earlier import Earlier
from tvm_fusionx.tuning.farm_bench import FarmBench, identify
from tvm_fusionx.tuning.finals import decide_block, decide_model
from tvm_fusionx.tuning.journal import DRY_RUN, Journal
from tvm_fusionx.tuning.peak import measure_peak
from tvm_fusionx.tuning.report import TaskResult, TuningReport, record_of
from tvm_fusionx.tuning.search import FUSIONX
from tvm_fusionx.tuning.session import Session
from tvm_fusionx.tuning.settings import Settings
from tvm_fusionx.tuning.task import Task, collect_tasks, select_tasks

logger = logging.getLogger(__name__)

JOURNALS = "journal"
RECORDS = "records"
DIGITS = 16
LOCAL = "local"

AnyDevice: TypeAlias = "TargetLike | Device"
# Short names of what may be left out: a signature is read in a terminal.
Weights: TypeAlias = "Params | None"
Folder: TypeAlias = "AnyPath | None"
Feeds: TypeAlias = "Arrays | None"
Ray: TypeAlias = "str | None"
Count: TypeAlias = "int | None"
Tell = Callable[[str, Session | None], None]
Watch = Tell | None
"""Told the stage's name, or after a trial the session; nothing is told where it is None."""


@interruptible()
def tune(
    mod: IRModule,
    target_or_device: AnyDevice = LOCAL,
    params: Weights = None,
    *,
    records: Folder = None,
    resume: bool = False,
    only: Iterable[str] = (),
    dry_run: bool = False,
    parallel: int = 1,
    cluster: Ray = None,
    inputs: Feeds = None,
    model: str = "",
    workers: Count = None,
    watch: Watch = None,
    tuner: str = Settings.tuner,
    algorithm: str = Settings.algorithm,
    space: str = Settings.space,
    trials: int | None = Settings.trials,
    budget_seconds: float | None = Settings.budget_seconds,
    seed: int = Settings.seed,
    batch: int = Settings.batch,
    finalists: int = Settings.finalists,
    rounds: int = Settings.rounds,
    transfer: bool = Settings.transfer,
) -> TuningReport:
    """Search the knobs of a model's blocks on a device, and keep what makes the model faster.

    Parameters
    ----------
    mod
        Relay module, as from :func:`tvm_fusionx.from_onnx`; not changed.
    target_or_device
        A device, the name of one, or a target that this machine runs.
    params
        Values of parameters that are not bound in the module yet.
    records
        Folder of the records and of the journal; the user's own by default.
    resume
        Continue the newest session of this model and these settings that did not end.
    only
        Blocks to search, by name, part of a name, or hash; all by default.
    dry_run
        Only time the blocks and say where the budget would go.
    parallel
        Devices of the same key to use at a time.
    cluster
        Address of a Ray cluster whose workers have the device, as ``ray start
        --resources='{"device:NAME": 1}'`` says; by default this process asks the device itself.
    inputs
        One array for each input, for the comparison of the whole model; seeded ones by default.
    model
        Name of the model in the journal.
    workers
        Processes that compile; one for each core by default.
    watch
        Told about the progress.
    tuner, algorithm, space, trials, budget_seconds, seed, batch, finalists, rounds, transfer
        How to search and how much, as :class:`tvm_fusionx.tuning.settings.Settings` tells.

    Returns
    -------
    TuningReport
        Its records, if any were accepted, are for ``fx.build(records=...)``.

    Raises
    ------
    DeviceError, DeviceLostError
        The device cannot be reached, went away for good, or another kind is in its place (all
        trials so far are kept); or several at a time are this machine.
    MissingDependencyError
        A cluster is given, and Ray is not installed.
    TuningError
        No candidate could be measured, or TVM's space was asked for on a target that is no CPU.
    RecordError, OutputFileError
        Journal or records are damaged or cannot be written.
    """
    watch = _tell_nobody if watch is None else watch
    chosen = Settings(
        tuner=tuner,
        algorithm=algorithm,
        space=space,
        trials=trials,
        budget_seconds=budget_seconds,
        seed=seed,
        batch=batch,
        finalists=finalists,
        rounds=rounds,
        transfer=transfer,
    )
    device = _device(target_or_device)
    target = device.tvm_target()
    _check_space(chosen, target)
    if device.is_local:
        if cluster is None:
            _check_parallel(device, parallel)
        threads_in_use()
    root = Path(records) if records is not None else data_folder() / RECORDS
    if root.suffix == ".jsonl":
        raise RecordError(
            f"tuning records {root}",
            expected="a folder: the journal is kept beside the records",
            found="a file",
            next_step=f"Give the folder {root.parent}.",
        )
    watch("building", None)
    build = build_fused(mod, target, params, on_stage=lambda stage: watch(stage, None))
    tasks = select_tasks(collect_tasks(build, target), only)
    if chosen.space != FUSIONX:
        tasks = [replace(task, takes_traces=True) for task in tasks]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fusionx-tune-")))
        benches = [
            stack.enter_context(
                Bench(device) if cluster is None else FarmBench(device, address=cluster)
            )
            for _ in range(max(1, parallel))
        ]
        watch("reaching the device", None)
        fingerprint, processor = benches[0].call(identify)
        for bench in benches:
            bench.processor = processor
        builder = CandidateBuilder(device, folder, workers)
        stack.callback(builder.close)
        peak = measure_peak(benches[0], folder)
        journal = stack.enter_context(
            Journal(
                journal_path(root, target, fingerprint),
                target_key(target),
                fingerprint,
                is_local=device.is_local and cluster is None,
            )
        )
        earlier = Earlier() if dry_run else Earlier.read(root, target, fingerprint)
        description = _description(model, tasks, chosen)
        if not resume or journal.resume_session(description) is None:
            if resume:
                logger.warning("no unfinished session of this model: a new one begins")
            journal.begin_session(description | {DRY_RUN: dry_run})
        session = Session(
            tasks, benches, builder, journal, chosen, peak, lambda each: watch("", each)
        )
        watch("timing the blocks", session)
        session.time_defaults()
        if not dry_run:
            watch("searching", session)
            session.search()
        return _finish(
            session, build, mod, params, inputs, folder, root, fingerprint, earlier, dry_run, watch
        )


def _tell_nobody(stage: str, session: Session | None) -> None:
    pass


def _check_space(settings: Settings, target: tvm.target.Target) -> None:
    if settings.space != FUSIONX and not is_cpu(target):
        raise TuningError(
            f"tuning space {settings.space!r}",
            expected="a CPU target: TVM's traces for others bind threads that our build lays out",
            found=str(target.kind.name),
            next_step=f"Search the space {FUSIONX!r}.",
        )


def _check_parallel(device: Device, parallel: int) -> None:
    if parallel > 1:
        raise DeviceError(
            f"device {device.name}, {parallel} at a time",
            expected="1 at a time: kernels that are timed together share this machine's cores",
            found=str(parallel),
            next_step="Leave out parallel (--parallel), or name devices behind a tracker.",
        )


def _finish(
    session: Session,
    build: FusedBuild,
    mod: Any,
    params: Mapping[str, Any] | None,
    inputs: Mapping[str, np.ndarray] | None,
    folder: Path,
    root: Path,
    fingerprint: str,
    earlier: Earlier,
    dry_run: bool,
    watch: Tell,
) -> TuningReport:
    target = session.builder.device.tvm_target()
    watch("comparing the best candidates with the defaults", session)
    results = tuple(
        decide_block(session, progress.task, earlier.choice(progress.task))
        for progress in session.progresses.values()
    )
    report = TuningReport(
        target_key(target),
        fingerprint,
        results,
        failures=dict(session.failures),
        trials=session.trials,
        seconds=session.spent_seconds,
        peak=session.peak,
        reason=_why_nothing(session, dry_run),
    )
    if dry_run:
        return report
    winners = sorted((each for each in results if each.is_better), key=_saved, reverse=True)
    comparison, reason = None, report.reason
    specs = inputs_of(mod, params)
    arrays = random_inputs(specs) if inputs is None else check_inputs(inputs, specs)
    attempts = _attempts(winners, earlier)
    while winners := next(attempts, []):
        watch("comparing the whole model", session)
        for bench in session.benches:
            # Building takes longer than an idle session may last.
            bench.drop()
        at = time.time()
        tuned = build_fused(
            mod,
            target,
            params,
            {each.task.key: _record(each, session, fingerprint, at) for each in winners},
        )
        comparison, reason = decide_model(session, [build.library, tuned.library], arrays, folder)
        if not reason:
            break
    is_accepted = bool(winners)
    kept = [each if each in winners else _without_winner(each) for each in results]
    at = time.time()
    uncompared = {
        each.task.key
        for each in results
        if earlier.choice(each.task) is not None
        and (each.comparison is None or (each.is_better and comparison is None))
    }
    records = [_record(result, session, fingerprint, at) for result in kept]
    file = add_records(own_file(root), earlier.joined_by(records, uncompared))
    session.journal.end_session()
    return replace(
        report,
        tasks=tuple(kept),
        end_to_end=comparison,
        is_accepted=is_accepted,
        reason=reason,
        records=file,
        seconds=session.spent_seconds,
    )


def _attempts(winners: list[TaskResult], earlier: Earlier) -> Iterator[list[TaskResult]]:
    """Yield the winners to try in the model, fewer each time: one of many may spoil it.

    After all of them what earlier sessions found, then the half of all that saves most, and so on.
    """
    yield winners
    known = [each for each in winners if each.choice == earlier.choice(each.task)]
    if 0 < len(known) < len(winners):
        yield known
    while winners := winners[: len(winners) // 2]:
        yield winners


def _saved(result: TaskResult) -> float:
    """Return the seconds that a winner saves in a run of the model."""
    ratio = result.comparison.ratio if result.comparison is not None else 1.0
    return result.task.count * result.default_seconds * (1 - 1 / ratio)


def _why_nothing(session: Session, dry_run: bool) -> str:
    """Return what to say where no block won."""
    if dry_run:
        return "a dry run: nothing was tried"
    if not any(progress.task.is_tunable for progress in session.progresses.values()):
        return "no block leaves anything to choose"
    if not session.trials and next_task(session.progresses.values()) is not None:
        return "the budget was spent before a candidate was measured: give more"
    if not session.trials:
        return "no candidate was left to try: the journal knows all that may be"
    return "no block became faster"


def _without_winner(result: TaskResult) -> TaskResult:
    if not result.is_better:
        return result
    return replace(
        result,
        choice=result.task.space.default,
        comparison=None,
        reason="faster alone, and the model no faster with it",
    )


def _record(result: TaskResult, session: Session, fingerprint: str, at: float) -> Record:
    return record_of(
        result,
        target=target_key(session.builder.device.tvm_target()),
        device=fingerprint,
        tuner=session.settings.tuner,
        at=at,
        versions=versions(),
    )


def _device(target_or_device: AnyDevice) -> Device:
    if isinstance(target_or_device, Device):
        return target_or_device
    text = str(target_or_device)
    kind = text.split()[0] if text.split() else ""
    if isinstance(target_or_device, tvm.target.Target) or kind in tvm.target.Target.list_kinds():
        resolve_target(target_or_device)
        return find_device(LOCAL, target=text)
    return find_device(text)


def journal_path(root: Path, target: tvm.target.Target, fingerprint: str) -> Path:
    """Return the journal of all trials for one target on one kind of device."""
    digest = hashlib.sha256(f"{target_key(target)}|{fingerprint}".encode()).hexdigest()
    return root / JOURNALS / f"{digest[:DIGITS]}.jsonl"


def _description(model: str, tasks: Sequence[Task], settings: Settings) -> dict[str, Any]:
    """Return what two parts of one session share."""
    keys = " ".join(sorted(task.key for task in tasks))
    return {
        "model": model,
        "blocks": hashlib.sha256(keys.encode()).hexdigest()[:DIGITS],
        "tuner": settings.tuner,
        "algorithm": settings.algorithm,
        "seed": settings.seed,
        "space": settings.space,
        "versions": versions(),
    }
