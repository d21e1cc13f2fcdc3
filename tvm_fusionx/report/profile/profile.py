"""Where the time of a compiled model goes: one row a kernel, and what they leave unexplained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import tvm

from tvm_fusionx._tvm.interrupts import interruptible
from tvm_fusionx.build.fused_build import notes_of
from tvm_fusionx.build.kernels import GraphNode, KernelNote
from tvm_fusionx.build.library import Library, describe_library
from tvm_fusionx.inputs import check_inputs
from tvm_fusionx.measuring.machine_peak import MachinePeak, measure_machine_peak
from tvm_fusionx.report.bench.plain_tvm import set_inputs
from tvm_fusionx.report.bench.timing import check_repeat, threads_apart
from tvm_fusionx.report.profile.stepwise import StepwiseExecutor
from tvm_fusionx.schedules.block_work import Work
from tvm_fusionx.threads import threads_in_use

# One measurement of a kernel fills this, so that the clock's resolution and the first cold run
# vanish.
MIN_REPEAT_MS = 5

DEFAULT_REPEAT = 5

# Whole runs before the end-to-end time is taken.
WARM_UP_RUNS = 3

GIGA = 1e9
MICROSECONDS = 1e6


@dataclass(frozen=True)
class KernelTime:
    """One kernel's time and speed.

    Attributes
    ----------
    name
        The block's name.
    operators
        Names of the model's nodes in it.
    template
        The template that scheduled it; empty where unknown.
    seconds
        Median time of one run, alone, its operands in the caches as far as they fit.
    share
        Part of the sum over all kernels, between 0 and 1.
    gflops_per_second
        Speed in floating-point operations: those of `work`, which are fewer than a convolution's by
        definition where minimal filtering computes it; None where there are none or it is unknown.
    gbytes_per_second
        What `work` reads and writes over the time, of a table the rows that are read; where it is
        unknown, `bytes` over the time.
    part_of_peak
        `gflops_per_second` over the most that the machine does; None where either is unknown.
    is_tuned
        Whether a tuner chose its schedule and not the template its default; None where unknown.
    flops
        Floating-point operations of its operators, a convolution counted as the direct one whatever
        computes it; None where unknown.
    bytes
        Size of its operands and results, each counted once and whole.
    work
        What one run takes at least; None where unknown.
    """

    name: str
    operators: tuple[str, ...]
    template: str
    seconds: float
    share: float
    gflops_per_second: float | None
    gbytes_per_second: float
    part_of_peak: float | None = None
    is_tuned: bool | None = None
    flops: int | None = None
    bytes: int = 0
    work: Work | None = None

    @classmethod
    def of(
        cls,
        name: str,
        note: KernelNote,
        seconds: float,
        total: float,
        held: int,
        work: Work | None,
        peak: MachinePeak | None,
    ) -> KernelTime:
        """Return the row of a kernel.

        Parameters
        ----------
        name, seconds, work
            As the attributes.
        note
            What the build knows of it.
        total
            Seconds of all kernels.
        held
            Bytes of its operands and results.
        peak
            The most that the machine does.
        """
        moved = held if work is None else work.bytes
        speed = work.flops / seconds / GIGA if work is not None and work.flops and seconds else None
        return cls(
            name=name,
            operators=note.operators,
            template=note.template,
            seconds=seconds,
            share=seconds / total if total else 0.0,
            gflops_per_second=speed,
            gbytes_per_second=moved / seconds / GIGA if seconds else 0.0,
            part_of_peak=speed / peak.gflops_per_second if speed and peak is not None else None,
            is_tuned=note.is_tuned,
            flops=note.flops,
            bytes=held,
            work=work,
        )


@dataclass(frozen=True)
class TemplateTime:
    """All kernels of one template.

    Attributes
    ----------
    template
        Its name; empty where unknown.
    kernels
        How many there are.
    seconds, share
        Their times and shares added up.
    """

    template: str
    kernels: int
    seconds: float
    share: float


@dataclass(frozen=True)
class ProfileReport:
    """The kernels in execution order, and the whole.

    Attributes
    ----------
    kernels
        One row a kernel.
    end_to_end_seconds
        Median time of a whole run.
    peak
        What the machine can do at most; None where it was not measured.
    between
        What else the time goes to where kernels were timed in a run, and not each alone.
    """

    kernels: tuple[KernelTime, ...]
    end_to_end_seconds: float
    peak: MachinePeak | None = None
    between: str = ""

    @property
    def sum_seconds(self) -> float:
        """Return the sum of the kernels' own times."""
        return sum(kernel.seconds for kernel in self.kernels)

    @property
    def gap_seconds(self) -> float:
        """Return what the kernels' own times leave of the whole; negative when they exceed it."""
        return self.end_to_end_seconds - self.sum_seconds

    def gap_text(self) -> str:
        """Return the gap with its cause in words."""
        if self.between:
            cause = self.between
        elif self.gap_seconds >= 0:
            cause = "operands not in the caches when a kernel starts, and launching kernels"
        else:
            cause = (
                "kernels run faster in a row, on operands that the one before left in the caches"
            )
        direction = "more" if self.gap_seconds >= 0 else "less"
        return f"{format_seconds(abs(self.gap_seconds))} {direction} ({cause})"

    def by_template(self) -> tuple[TemplateTime, ...]:
        """Return the kernels' times added up by template, the longest first."""
        groups: dict[str, list[KernelTime]] = {}
        for kernel in self.kernels:
            groups.setdefault(kernel.template, []).append(kernel)
        rows = [
            TemplateTime(
                template,
                len(group),
                sum(kernel.seconds for kernel in group),
                sum(kernel.share for kernel in group),
            )
            for template, group in groups.items()
        ]
        return tuple(sorted(rows, key=lambda row: -row.seconds))

    def to_blocks(self) -> list[dict[str, Any]]:
        """Return a row a kernel, under its names in the benchmark's schema."""
        return [
            {
                "name": kernel.name,
                "template": kernel.template,
                "us": kernel.seconds * MICROSECONDS,
                "flops": kernel.flops,
                "bytes": kernel.bytes,
                "work": None if kernel.work is None else asdict(kernel.work),
            }
            for kernel in self.kernels
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the report as a dictionary that ``json.dumps`` takes; times in seconds."""
        return {
            "kernels": [asdict(kernel) for kernel in self.kernels],
            "templates": [asdict(row) for row in self.by_template()],
            "sum_s": self.sum_seconds,
            "end_to_end_s": self.end_to_end_seconds,
            "gap_s": self.gap_seconds,
            "peak": self.peak.to_json() if self.peak is not None else None,
        }


@interruptible()
def profile(
    library: Any,
    inputs: Mapping[str, np.ndarray],
    repeat: int = DEFAULT_REPEAT,
    on_kernel: Callable[[], None] | None = None,
    device: Any = None,
    peak: MachinePeak | Literal["measure"] | None = "measure",
) -> ProfileReport:
    """Time each kernel of `library` alone on the operands that it gets in a real run.

    Here the calling thread has a core to itself meanwhile, and the workers the others, as where
    ``fx.bench`` times whole runs: the two are comparable.

    Parameters
    ----------
    library
        A compiled model: what ``fx.build``, ``load_library`` or TVM's own ``relay.build`` returned.
        The templates' names and the speeds in operations are unknown of the last.
    inputs
        One array for each input.
    repeat
        Measurements of each kernel, each at least :data:`MIN_REPEAT_MS` long; the median counts.
    on_kernel
        Called after each kernel.
    device
        The ``tvm.runtime.Device`` that the library is loaded for, also one behind RPC; the first
        CPU by default. Times are taken on the device itself.
    peak
        What kernels' speeds are parts of. By default it is measured in a second where the library
        runs on this machine's CPU, and unknown elsewhere.

    Raises
    ------
    InputError
        An input does not fit the model, or `repeat` is less than 1.
    """
    check_repeat(repeat)
    if not isinstance(library, Library):
        library = describe_library(
            library, model="", target="", inputs=(), kernels=notes_of(library)
        )
    stepwise = StepwiseExecutor(library, device)
    arrays = check_inputs(inputs, stepwise.inputs)
    is_here = device is None or _is_this_cpu(device)
    # Where the library runs elsewhere, the threads of this process compute nothing.
    with threads_apart(threads_in_use()) if is_here else nullcontext():
        if peak == "measure":
            peak = measure_machine_peak() if is_here else None
        return _measure(library, stepwise, arrays, repeat, on_kernel or _tell_nobody, peak)


def _tell_nobody() -> None:
    pass


def _measure(
    library: Library,
    stepwise: StepwiseExecutor,
    arrays: Mapping[str, np.ndarray],
    repeat: int,
    on_kernel: Callable[[], None],
    peak: MachinePeak | None,
) -> ProfileReport:
    notes = {note.name: note for note in library.kernels}
    timed: list[tuple[GraphNode, float]] = []
    values: dict[tuple[int, int], Any] = {}
    for node in stepwise.graph.nodes:
        if not node.is_call:
            constant = stepwise.parameter(node)
            values[node.index, 0] = (
                stepwise.to_device(arrays[node.name]) if constant is None else constant
            )
            continue
        operands = [values[entry] for entry in node.inputs]
        for position, output in enumerate(stepwise.outputs_of(node, operands)):
            values[node.index, position] = output
        if stepwise.launches(node):
            runs = stepwise.seconds_per_run(node, operands, repeat, MIN_REPEAT_MS)
            timed.append((node, float(np.median(runs))))
            on_kernel()
    total = sum(seconds for _, seconds in timed)
    rows = [
        _row(node, seconds, total, notes.get(node.name, KernelNote(node.name)), stepwise, peak)
        for node, seconds in timed
    ]
    return ProfileReport(tuple(rows), _end_to_end(library, arrays, repeat, stepwise.device), peak)


def _is_this_cpu(device: Any) -> bool:
    # TVM numbers a device behind RPC from 128 on.
    return bool(device.device_type == tvm.cpu().device_type)


def _row(
    node: GraphNode,
    seconds: float,
    total: float,
    note: KernelNote,
    stepwise: StepwiseExecutor,
    peak: MachinePeak | None,
) -> KernelTime:
    nodes = stepwise.graph.nodes
    held = sum(nodes[source].outputs[position].bytes for source, position in set(node.inputs))
    held += sum(tensor.bytes for tensor in node.outputs)
    return KernelTime.of(node.name, note, seconds, total, held, note.work, peak)


def _end_to_end(
    library: Library, inputs: Mapping[str, np.ndarray], repeat: int, device: Any
) -> float:
    """Return the median time of a whole run, measured for as long as a kernel at least."""
    executor = library.executor(device)
    set_inputs(executor, inputs)
    evaluate = executor.module.time_evaluator
    evaluate("run", device, number=WARM_UP_RUNS)()
    timed = evaluate("run", device, number=1, repeat=repeat, min_repeat_ms=MIN_REPEAT_MS)
    return float(np.median(timed().results))


def format_seconds(seconds: float) -> str:
    """Return a time with three significant digits in the unit that suits it: s, ms, µs or ns."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", MICROSECONDS)):
        if seconds * scale >= 1:
            return (
                f"{seconds * scale:.3g} {unit}"
                if seconds * scale < 1000
                else f"{seconds * scale:.0f} {unit}"
            )
    return f"{seconds * 1e9:.3g} ns"
