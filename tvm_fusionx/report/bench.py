"""Measure a model compiled by us beside TVM's default, our unfused control, and other runtimes."""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.block_calls import post_order
from tvm_fusionx.errors import InputError
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.fused_build import FusedBuild, build_fused, kernel_notes
from tvm_fusionx.inputs import InputSpec, check_inputs, inputs_of, random_inputs
from tvm_fusionx.kernels import KernelGraph
from tvm_fusionx.library import build_versions, describe_library
from tvm_fusionx.output_file import new_file
from tvm_fusionx.report.difference import measure_difference, worst
from tvm_fusionx.report.footprint import footprint, planned_bytes
from tvm_fusionx.report.peers import ONNX_PEERS, PEERS, PreparedPeer, prepare_peer
from tvm_fusionx.report.plain_tvm import build_plain, load, set_inputs
from tvm_fusionx.report.profile import GIGA, MICROSECONDS, profile
from tvm_fusionx.report.reference import run_onnxruntime
from tvm_fusionx.report.timing import Latency, describe_failure, threads_apart, time_interleaved
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.threads import threads as set_threads

OURS = "fusionx"
TVM = "tvm"
UNFUSED = "unfused"
SIDES = (TVM, UNFUSED, *PEERS)
DEFAULT_SIDES = (TVM, UNFUSED, *ONNX_PEERS)

DEFAULT_TARGET = "llvm -mcpu=native"
DEFAULT_REPEAT = 50

# Another runtime whose outputs are further off than its fast convolutions explain computes
# something else.
SUSPICIOUS_RELATIVE_ERROR = 1e-2


@dataclass
class BenchResult:
    """One benchmark; :meth:`to_json` is documented in ``docs/bench_schema.md``."""

    model: str
    target: str
    threads: int
    device: str
    versions: dict[str, str]
    ops: int
    kernels: dict[str, int | None]
    intermediate_bytes: dict[str, int | None]
    weight_bytes: int
    max_rel_err: float
    cosine: float
    import_s: float
    build_s: float
    latency_ms: dict[str, Latency] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    prepare_s: dict[str, float] = field(default_factory=dict)
    planned_bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    code_bytes: dict[str, int] = field(default_factory=dict)
    memory_bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    blocks: list[dict[str, Any]] = field(default_factory=list)
    peer_kernels: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the result as a dictionary that ``json.dumps`` takes."""
        return {
            **self.__dict__,
            "latency_ms": {name: latency.to_json() for name, latency in self.latency_ms.items()},
        }

    def save_json(self, path: str | Path) -> None:
        """Write :meth:`to_json` to `path`.

        Raises
        ------
        OutputFileError
            The path cannot be written.
        """
        with new_file(path) as scratch:
            scratch.write_text(json.dumps(self.to_json(), indent=2) + "\n", encoding="utf-8")

    def speedup_over(self, side: str) -> float | None:
        """Return the median latency of `side` over ours; None when it has none."""
        if side not in self.latency_ms or OURS not in self.latency_ms:
            return None
        return self.latency_ms[side].median / self.latency_ms[OURS].median


def bench(
    model: str | Path | Any,
    target: str | tvm.target.Target = DEFAULT_TARGET,
    vs: Sequence[str] = DEFAULT_SIDES,
    *,
    threads: int | None = None,
    repeat: int = DEFAULT_REPEAT,
    inputs: Mapping[str, Any] | None = None,
    shape: Mapping[str, Sequence[int]] | None = None,
    records: str | Path | None = None,
    thorough: bool = False,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> BenchResult:
    """Time `model` on every side, all in this process, taking turns, with the same threads.

    Parameters
    ----------
    model
        An ONNX file or ``ModelProto``.
    vs
        The sides to compare with, of :data:`SIDES`.
    threads
        Threads of every side; by default the cores that this process may use.
    repeat
        Timed runs of each side.
    inputs
        Arrays by name; by default seeded random ones.
    shape, records
        As for ``fx.from_onnx`` and ``fx.build``.
    thorough
        Also measure the size of the code, the memory of a fresh process for each side, and the time
        of each block of ours.
    on_stage
        Told what is being done, in words.

    Returns
    -------
    BenchResult
        A side that failed has its message in `errors` and no latency.

    Raises
    ------
    InputError
        `vs` names an unknown side, or an input does not fit the model.
    """
    _check_sides(vs)
    resolved = resolve_target(target)
    count = set_threads(threads)
    on_stage("importing")
    started = time.perf_counter()
    mod, params = from_onnx(model, shape=shape)
    import_s = time.perf_counter() - started
    specs = inputs_of(mod, params)
    arrays = check_inputs(inputs, specs) if inputs is not None else random_inputs(specs)

    on_stage("building fusionx")
    started = time.perf_counter()
    built = build_fused(mod, resolved, params, records)
    libraries = {OURS: built.library}
    build_s = time.perf_counter() - started
    prepare_s = {OURS: build_s}
    errors: dict[str, str] = {}
    builders: dict[str, Callable[[], Any]] = {
        TVM: lambda: build_plain(mod, resolved, params),
        UNFUSED: lambda: build_fused(mod, resolved, params, records, fuse=False).library,
    }
    for side, build in builders.items():
        if side in vs:
            on_stage(f"building {side}")
            started = time.perf_counter()
            try:
                libraries[side] = build()
                prepare_s[side] = time.perf_counter() - started
            except Exception as error:  # TVM's default does fail on valid models
                errors[side] = describe_failure(error)

    graphs = {
        side: KernelGraph.from_json(library.get_graph_json()) for side, library in libraries.items()
    }
    executors = {side: load(library) for side, library in libraries.items()}
    for executor in executors.values():
        set_inputs(executor, arrays)
    sides: dict[str, Callable[[], Any]] = {side: ex.run for side, ex in executors.items()}
    with _model_file(model) as path:
        on_stage("computing the reference")
        ours = _outputs_of(executors[OURS])
        reference = _reference(path, arrays, executors)
        peers: dict[str, PreparedPeer] = {}
        for side, peer, seconds in _prepare_peers(
            vs, path, arrays, count, reference, errors, on_stage
        ):
            peers[side], prepare_s[side] = peer, seconds
        sides.update({side: peer.run for side, peer in peers.items()})
        on_stage("timing")
        with threads_apart(count):
            latency_ms, failures = time_interleaved(sides, repeat)
        code: dict[str, int] = {}
        memory: dict[str, dict[str, int]] = {}
        blocks: list[dict[str, Any]] = []
        peer_kernels: dict[str, int] = {}
        if thorough:
            peer_kernels = _count_peers(peers)
            on_stage("measuring memory")
            apart = tuple(side for side in peers if side in ONNX_PEERS)
            code, memory = footprint(libraries, apart, path, arrays, count)
            on_stage("timing blocks")
            blocks = _block_times(built, _name_of(model), specs, arrays)
    difference = worst([measure_difference(a, b) for a, b in zip(ours, reference, strict=True)])
    return BenchResult(
        model=_name_of(model),
        target=str(resolved),
        threads=count,
        device=describe_device(),
        versions={**build_versions(), **{name: peer.version for name, peer in peers.items()}},
        ops=count_operators(mod),
        kernels={
            side: len(graphs[side].kernels) if side in graphs else None
            for side in (OURS, TVM, UNFUSED)
        },
        intermediate_bytes={
            side: graphs[side].intermediate_bytes if side in graphs else None
            for side in (OURS, TVM)
        },
        weight_bytes=_weight_bytes(libraries[OURS]),
        max_rel_err=difference.max_rel,
        cosine=difference.cosine,
        import_s=import_s,
        build_s=build_s,
        latency_ms=latency_ms,
        errors={**errors, **failures},
        prepare_s=prepare_s,
        planned_bytes={
            side: planned_bytes(library).to_json() for side, library in libraries.items()
        },
        code_bytes=code,
        memory_bytes=memory,
        blocks=blocks,
        peer_kernels=peer_kernels,
    )


def count_operators(mod: tvm.IRModule) -> int:
    """Return the number of operator calls in ``main`` of an unfused module."""
    return sum(
        isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op)
        for expr in post_order(mod["main"].body)
    )


def describe_device() -> str:
    """Return the processor's name and the number of its logical cores."""
    name = platform.processor() or platform.machine()
    description = Path("/proc/cpuinfo")
    if description.exists():
        for line in description.read_text().splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return f"{name}, {os.cpu_count()} logical cores"


def _check_sides(vs: Sequence[str]) -> None:
    unknown = [side for side in vs if side not in SIDES]
    if unknown:
        raise InputError(
            "sides to compare with",
            expected=f"some of {', '.join(SIDES)}",
            found=", ".join(map(repr, unknown)),
            next_step="Correct the names, as in --vs tvm,unfused,ort.",
        )


def _prepare_peers(
    vs: Sequence[str],
    path: Path,
    arrays: Mapping[str, np.ndarray],
    count: int,
    reference: list[np.ndarray],
    errors: dict[str, str],
    on_stage: Callable[[str], None],
) -> Iterator[tuple[str, PreparedPeer, float]]:
    """Yield the peers that load and run once, and the seconds that this took.

    The others' messages go into `errors`.
    """
    for side in vs:
        if side not in PEERS:
            continue
        on_stage(f"preparing {side}")
        started = time.perf_counter()
        try:
            peer = prepare_peer(side, path, arrays, count)
            outputs = peer.outputs(peer.run())
            seconds = time.perf_counter() - started
        except Exception as error:  # another runtime may raise anything
            errors[side] = describe_failure(error)
            continue
        distance = _peer_distance(outputs, reference)
        if not distance <= SUSPICIOUS_RELATIVE_ERROR:
            errors[side] = (
                f"timed, but its outputs are {distance:.2g} off (relative to the largest)"
            )
        yield side, peer, seconds


def _peer_distance(outputs: list[np.ndarray], reference: list[np.ndarray]) -> float:
    """Return the largest relative difference; extents of 1 and widths of dtypes may differ."""
    if [a.size for a in outputs] != [b.size for b in reference]:
        return float("inf")
    return max(
        (
            measure_difference(
                np.asarray(a, np.float64).reshape(b.shape), np.asarray(b, np.float64)
            ).max_rel
            for a, b in zip(outputs, reference, strict=True)
        ),
        default=0.0,
    )


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


def _block_times(
    built: FusedBuild,
    model: str,
    specs: tuple[InputSpec, ...],
    arrays: Mapping[str, np.ndarray],
) -> list[dict[str, Any]]:
    """Return a row for each kernel of ours: template, time, operations and bytes."""
    library = describe_library(
        built.library, model=model, target="", inputs=specs, kernels=kernel_notes(built)
    )
    flops = {note.name: note.flops for note in library.kernels}
    return [
        {
            "name": kernel.name,
            "template": kernel.template,
            "us": kernel.seconds * MICROSECONDS,
            "flops": flops.get(kernel.name),
            "bytes": round(kernel.gbytes_per_second * kernel.seconds * GIGA),
        }
        for kernel in profile(library, arrays).kernels
    ]


def _outputs_of(executor: Any) -> list[np.ndarray]:
    executor.run()
    return [executor.get_output(index).numpy() for index in range(executor.get_num_outputs())]


@contextmanager
def _model_file(model: Any) -> Iterator[Path]:
    """Yield the model as a file, which is what the other runtimes take."""
    if isinstance(model, (str, Path)):
        yield Path(model)
        return
    with tempfile.TemporaryDirectory(prefix="fusionx-bench-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        yield path


def _name_of(model: Any) -> str:
    return Path(model).stem if isinstance(model, (str, Path)) else str(model.graph.name)


def _weight_bytes(library: Any) -> int:
    return sum(
        int(np.prod(value.shape, dtype=np.int64)) * np.dtype(value.dtype).itemsize
        for value in library.get_params().values()
    )
