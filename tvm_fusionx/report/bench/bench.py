"""Measure a model compiled by us beside TVM's default, our unfused control, and other runtimes."""

from __future__ import annotations

import gc
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx._tvm.arrays import numpy_of
from tvm_fusionx._tvm.interrupts import interruptible
from tvm_fusionx.build.executors import VM, chosen_executor
from tvm_fusionx.build.library import build_versions
from tvm_fusionx.devices import Device, find_device
from tvm_fusionx.errors import InputError
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.frontend.model_inputs import ShapeArgument
from tvm_fusionx.inputs import Arrays, check_inputs, inputs_of, random_inputs
from tvm_fusionx.output_file import AnyPath
from tvm_fusionx.processors.cpu import FLOAT32_BITS
from tvm_fusionx.processors.targets import TargetLike
from tvm_fusionx.records.device import processor_name
from tvm_fusionx.report.bench.accuracy import relative_errors
from tvm_fusionx.report.bench.bench_result import OURS, BenchResult
from tvm_fusionx.report.bench.bench_sides import (
    TVM,
    UNFUSED,
    TunedBuild,
    build_sides,
    count_operators,
    model_file,
    name_of,
)
from tvm_fusionx.report.bench.device_bench import DEVICE_SIDES, bench_on_device
from tvm_fusionx.report.bench.footprint import footprint
from tvm_fusionx.report.bench.machine_sides import build_machine_sides
from tvm_fusionx.report.bench.plain_tvm import load, set_inputs
from tvm_fusionx.report.bench.sustained import Sustained, time_sustained
from tvm_fusionx.report.bench.timing import (
    check_repeat,
    describe_failure,
    threads_apart,
    time_interleaved,
    turns_of,
)
from tvm_fusionx.report.bench.under_load import Loads, check_loads, runs_of, time_under_load
from tvm_fusionx.report.peers import ONNX_PEERS, PEERS, PreparedPeer, prepare_peer
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.report.verify.difference import measure_difference, worst
from tvm_fusionx.report.verify.reference import run_onnxruntime
from tvm_fusionx.schedules import describe_cpu, resolve_target
from tvm_fusionx.threads import threads as set_threads

SIDES = (TVM, UNFUSED, *PEERS)
DEFAULT_SIDES = (TVM, UNFUSED, *ONNX_PEERS)

__all__ = ["DEFAULT_SIDES", "SIDES", "TunedBuild", "bench", "describe_device"]

Clock = Callable[[], float] | None
"""Tells a time in seconds."""

Alone = Callable[[], AbstractContextManager[None]] | None
"""Opens a scope in which other work on this machine stands still."""

OnTurn = Callable[[], None] | None
OnStage = Callable[[str], None]
Tuned = Mapping[str, TunedBuild]

DEFAULT_TARGET = "llvm -mcpu=native"
DEFAULT_REPEAT = 50


@interruptible()
def bench(
    model: str | Path | Any,
    target: TargetLike = DEFAULT_TARGET,
    vs: Sequence[str] | None = None,
    *,
    device: str | Device | None = None,
    threads: int | None = None,
    repeat: int = DEFAULT_REPEAT,
    least_seconds: float = 0.0,
    inputs: Arrays | None = None,
    shape: ShapeArgument = None,
    records: AnyPath | None = None,
    thorough: bool = False,
    sustained: float | None = None,
    busy: Loads = (),
    tuned: Tuned | None = None,
    conversions: AnyPath | None = None,
    clock: Clock = None,
    alone: Alone = None,
    on_turn: OnTurn = None,
    on_stage: OnStage | None = None,
) -> BenchResult:
    """Time `model` on every side, taking turns, with the same threads; here or on a device.

    Parameters
    ----------
    model
        An ONNX file or ``ModelProto``.
    vs
        The sides to compare with, of :data:`SIDES`; :data:`DEFAULT_SIDES` by default, and on a
        device those that can run there.
    device
        A device or the name of one, which takes the place of `target`. It then runs all sides in
        one session, and what loading and the first run took is told apart from the others;
        `least_seconds`, `thorough`, `sustained`, `busy` and `tuned` are for this machine.
    threads
        Threads of every side; by default the cores that this process may use.
    repeat
        Timed runs of each side.
    least_seconds
        What the timing of all sides takes at least: the sides of a short model are timed more
        often than `repeat`, so that a slow moment of the machine is not most of its time.
    inputs
        Arrays by name; by default seeded random ones.
    shape, records
        As for ``fx.from_onnx`` and ``fx.build``.
    thorough
        Also measure the size of the code, the memory of a fresh process for each side, and the time
        of each block of ours.
    sustained
        Seconds that each side also runs in one go, to see whether it keeps its speed.
    busy
        Also time all sides beside each of these numbers of busy processes, for 12 seconds each or
        what a mapping has; ours a second time on TVM's pool.
    tuned
        Further sides: builds that tune first, as :func:`tvm_fusionx.tuning.sides.tuned_builds`
        gives them.
    conversions
        A folder that keeps what other compilers and converters make of the model, for the next
        time: then `prepare_s` has the seconds that it took to make. By default nothing is kept.
    clock
        Tells the seconds that importing, building and converting take: a caller who lets this
        process stand still has one that stands still too.
    alone
        Entered while anything is timed or tuned: here a caller lets other work on this machine
        stand still.
    on_turn
        Called after each turn of all sides: here a caller may wait until the machine is quiet.
    on_stage
        Told what is being done, in words; what is counted as ``N of M``.

    Returns
    -------
    BenchResult
        A side that failed has its message in `errors` and no latency.

    Raises
    ------
    InputError
        `vs` names an unknown side, or one that cannot run on the device, an input does not fit the
        model, or `repeat` is less than 1.
    DeviceError, DeviceLostError
        The device cannot be reached, or ours does not run there.
    """
    if vs is None:
        vs = DEFAULT_SIDES if device is None else DEVICE_SIDES
    _check_sides(vs)
    check_repeat(repeat)
    check_loads(busy)
    clock, alone = clock or time.perf_counter, alone or nullcontext
    on_turn = _tell_nobody if on_turn is None else on_turn
    on_stage = _tell_nobody if on_stage is None else on_stage
    if device is not None:
        _check_plain(bool(least_seconds or thorough or tuned or busy) or sustained is not None)
        found = device if isinstance(device, Device) else find_device(device)
        return bench_on_device(
            model,
            found if threads is None else found.with_cores(threads),
            vs,
            repeat=repeat,
            inputs=inputs,
            shape=shape,
            records=records,
            on_stage=on_stage,
        )
    resolved = resolve_target(target)
    count = set_threads(threads)
    on_stage("importing")
    started = clock()
    mod, params = from_onnx(model, shape=shape)
    import_s = clock() - started
    builds = build_machine_sides if chosen_executor(mod, None) == VM else build_sides
    specs = inputs_of(mod, params)
    arrays = check_inputs(inputs, specs) if inputs is not None else random_inputs(specs)

    kept_folder = None if conversions is None else Path(conversions)
    built = builds(
        mod,
        resolved,
        params,
        arrays,
        vs,
        records,
        tuned=tuned,
        conversions=Conversions(kept_folder, clock),
        alone=alone,
        on_stage=on_stage,
    )
    libraries, prepare_s, errors = built.libraries, built.prepare_s, built.errors
    executors = {side: load(library) for side, library in libraries.items()}
    for executor in executors.values():
        set_inputs(executor, arrays)
    sides = runs_of(executors)
    with model_file(model) as path:
        on_stage("computing the reference")
        reference = _reference(path, arrays, executors)
        outputs = {side: _outputs_of(executor) for side, executor in executors.items()}
        peers: dict[str, PreparedPeer] = {}
        for side, peer, computed, seconds in _prepare_peers(
            vs, path, arrays, count, errors, Conversions(kept_folder, clock), on_stage
        ):
            peers[side], outputs[side], prepare_s[side] = peer, computed, seconds
        rel_err, wrong = relative_errors(outputs, reference)
        errors |= wrong
        sides.update({side: peer.run for side, peer in peers.items()})
        on_stage("timing")
        with alone(), threads_apart(count):
            done, turns = itertools.count(1), turns_of(repeat)

            def turned() -> None:
                on_stage(f"timing: turn {min(next(done), turns)} of {turns}")
                on_turn()

            latency_ms, failures = time_interleaved(
                sides, repeat, turned, least_seconds=least_seconds
            )
            kept: dict[str, Sustained] = {}
            if sustained is not None:
                kept, ended = time_sustained(
                    {side: sides[side] for side in latency_ms},
                    sustained,
                    lambda side: on_stage(f"running {side} for {sustained:g} s"),
                )
                failures |= ended
        with alone() if busy else nullcontext():
            timed = {side: sides[side] for side in latency_ms}
            loaded, ended = time_under_load(timed, busy, on_stage)
            failures |= ended
        versions = {**build_versions(), **{name: peer.version for name, peer in peers.items()}}
        code: dict[str, int] = {}
        memory: dict[str, dict[str, int]] = {}
        blocks: list[dict[str, Any]] = []
        peer_kernels: dict[str, int] = {}
        if thorough:
            peer_kernels = _count_peers(peers)
            on_stage("measuring memory")
            apart = tuple(side for side in peers if side in ONNX_PEERS)
            # Each holds the weights once more: a large model's ten sides fill a machine's memory.
            for held in (sides, peers, executors):
                held.clear()
            gc.collect()
            code, memory = footprint(libraries, apart, path, arrays, count, kept_folder)
            on_stage("timing blocks")
            with alone(), threads_apart(count):
                blocks = built.block_times(name_of(model), specs, arrays)
    difference = worst(
        [measure_difference(a, b) for a, b in zip(outputs[OURS], reference, strict=True)]
    )
    return BenchResult(
        model=name_of(model),
        target=str(resolved),
        threads=count,
        device=describe_device(),
        versions=versions,
        ops=count_operators(mod),
        max_rel_err=difference.distance,
        cosine=difference.cosine if math.isfinite(difference.distance) else 0.0,
        import_s=import_s,
        latency_ms=latency_ms,
        errors={**errors, **failures},
        prepare_s=prepare_s,
        code_bytes=code,
        memory_bytes=memory,
        blocks=blocks,
        peer_kernels=peer_kernels,
        rel_err=rel_err,
        sustained_ms=kept,
        loaded_ms=loaded,
        **built.description(),
    )


def _tell_nobody(*what: str) -> None:
    pass


def describe_device() -> str:
    """Return the processor's name and kind, its logical cores and the width of their vectors.

    In a virtual machine the name alone may be that of several generations, with other caches; and
    wide vectors of a processor that has them may be hidden.
    """
    target = resolve_target(DEFAULT_TARGET)
    lanes = describe_cpu(target).lanes
    return (
        f"{processor_name()} ({target.attrs['mcpu']}), {os.cpu_count()} logical cores, "
        f"{FLOAT32_BITS * lanes}-bit vectors"
    )


def _check_sides(vs: Sequence[str]) -> None:
    unknown = [side for side in vs if side not in SIDES]
    if unknown:
        raise InputError(
            "sides to compare with",
            expected=f"some of {', '.join(SIDES)}",
            found=", ".join(map(repr, unknown)),
            next_step="Correct the names, as in --vs tvm,unfused,ort.",
        )


def _check_plain(is_asked_for_more: bool) -> None:
    if is_asked_for_more:
        raise InputError(
            "a benchmark on a device",
            expected="sides that take turns, and nothing else",
            found="least_seconds, thorough, sustained, busy or tuned, for this machine only",
            next_step="Leave them out, or leave out the device.",
        )


def _prepare_peers(
    vs: Sequence[str],
    path: Path,
    arrays: Mapping[str, np.ndarray],
    count: int,
    errors: dict[str, str],
    conversions: Conversions,
    on_stage: OnStage,
) -> Iterator[tuple[str, PreparedPeer, list[np.ndarray], float]]:
    """Yield the peers that load and run once, their outputs, and the seconds that this took.

    The others' messages go into `errors`.
    """
    for side in vs:
        if side not in PEERS:
            continue
        on_stage(f"preparing {side}")
        started, spared = conversions.clock(), conversions.spared_s
        try:
            peer = prepare_peer(side, path, arrays, count, conversions)
            outputs = peer.outputs(peer.run())
            seconds = conversions.clock() - started + conversions.spared_s - spared
        except Exception as error:  # another runtime may raise anything
            errors[side] = describe_failure(error)
            continue
        yield side, peer, outputs, seconds


def _reference(
    path: Path, arrays: Mapping[str, np.ndarray], executors: Mapping[str, Any]
) -> list[np.ndarray]:
    """Return ONNX Runtime's outputs; without it TVM's, the unfused control's, or our own."""
    try:
        return run_onnxruntime(str(path), arrays)
    except ImportError:
        side = next((name for name in (TVM, UNFUSED) if name in executors), OURS)
        return _outputs_of(executors[side])


def _count_peers(peers: Mapping[str, PreparedPeer]) -> dict[str, int]:
    counts = {}
    for side, peer in peers.items():
        # A runtime that fails to tell has been timed all the same.
        with suppress(Exception):
            if peer.count_kernels is not None:
                counts[side] = peer.count_kernels()
    return counts


def _outputs_of(executor: Any) -> list[np.ndarray]:
    executor.run()
    return [numpy_of(executor.get_output(index)) for index in range(executor.get_num_outputs())]
