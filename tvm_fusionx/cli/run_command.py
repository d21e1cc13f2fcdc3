"""``fusionx run``."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Column, Table

from tvm_fusionx.cli.device_options import DeviceChoice, device_options
from tvm_fusionx.cli.options import debug_option, inputs_option, threads_option
from tvm_fusionx.cli.progress import Stages

if TYPE_CHECKING:
    from tvm_fusionx.devices import Device
    from tvm_fusionx.measuring.machine_peak import MachinePeak
    from tvm_fusionx.report.profile.profile import ProfileReport

# Runs before the timed ones of --print-time, after the first.
WARM_UP_RUNS = 3

DEFAULT_REPEAT = 50

# Rows of the profile that are shown; the rest is summed up in one.
PROFILE_ROWS = 20

# `KernelTime.is_tuned` in words.
_TUNED = {True: "yes", False: "no", None: "-"}


@click.command("run")
@click.argument("library", type=click.Path(path_type=Path))
@inputs_option
@click.option("--outputs", type=click.Path(path_type=Path), help="Write the outputs here (.npz).")
@click.option("--print-time", is_flag=True, help="Time the run.")
@click.option("--profile", "show_profile", is_flag=True, help="Show where the time goes.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the profile here as a trace for Perfetto or chrome://tracing (.json).",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=DEFAULT_REPEAT,
    show_default=True,
    help="Measurements of --print-time.",
)
@click.option(
    "--number",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Runs in each measurement, which gives their mean.",
)
@threads_option
@device_options
@debug_option
def command(
    library: Path,
    inputs: Path | None,
    outputs: Path | None,
    print_time: bool,
    show_profile: bool,
    trace: Path | None,
    repeat: int,
    number: int,
    threads: int | None,
    device: DeviceChoice,
) -> None:
    """Run LIBRARY, a file that `fusionx compile` wrote, here or with --device there."""
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.build.library import load_library
    from tvm_fusionx.devices import open_session
    from tvm_fusionx.inputs import check_inputs, random_inputs, read_inputs
    from tvm_fusionx.output_file import check_writable, new_file
    from tvm_fusionx.report.bench.plain_tvm import set_inputs
    from tvm_fusionx.report.bench.timing import threads_apart
    from tvm_fusionx.report.profile.profile import profile
    from tvm_fusionx.report.profile.trace import chrome_trace
    from tvm_fusionx.threads import threads as set_threads

    for path in (outputs, trace):
        if path is not None:
            check_writable(path)
    count = set_threads(threads)
    chosen = device.find()
    peak = _peak_of(chosen) if chosen is not None and (show_profile or trace is not None) else None
    with contextlib.ExitStack() as scope:
        started = time.perf_counter()
        if chosen is None:
            loaded, context = load_library(library), None
        else:
            session = scope.enter_context(open_session(chosen))
            session.keep_threads_apart()
            loaded, context = load_library(library, session.load), session.context
        executor = loaded.executor(context)
        init_seconds = time.perf_counter() - started
        if inputs is None:
            arrays = random_inputs(loaded.inputs)
            click.echo("No --inputs: using random ones.", err=True)
        else:
            arrays = check_inputs(read_inputs(inputs), loaded.inputs)
        set_inputs(executor, arrays)
        started = time.perf_counter()
        executor.run()
        first_seconds = time.perf_counter() - started
        results = [
            executor.get_output(index).numpy() for index in range(executor.get_num_outputs())
        ]
        _write_outputs(loaded, results, outputs)
        with Stages(f"running {library.name}") as stage:
            if print_time:
                stage("timing")
                where = f"{count} threads" if chosen is None else f"on {chosen.name}"
                apart = threads_apart(count) if chosen is None else contextlib.nullcontext()
                with apart:
                    line = _time_line(
                        executor, context, init_seconds, first_seconds, repeat, number
                    )
                click.echo(f"{line} ({repeat} x {number} runs, {where})")
            if show_profile or trace is not None:
                stage("profiling")
                report = profile(
                    loaded, arrays, device=context, peak="measure" if chosen is None else peak
                )
    if show_profile:
        _print_profile(report)
    if trace is not None:
        with new_file(trace) as scratch:
            scratch.write_text(json.dumps(chrome_trace(report)), encoding="utf-8")


def _write_outputs(loaded: Any, results: list[Any], outputs: Path | None) -> None:
    """Write the results to the file, or say what distinguishes each."""
    import numpy as np

    from tvm_fusionx.output_file import new_file

    if outputs is not None:
        names = [spec.name for spec in loaded.outputs]
        with new_file(outputs) as scratch, scratch.open("wb") as stream:
            np.savez(stream, **dict(zip(names, results, strict=True)))
        return
    for spec, result in zip(loaded.outputs, results, strict=True):
        click.echo(f"{spec}: {_describe(result)}")


def _describe(value: Any) -> str:
    """Return what distinguishes an array at a glance: its range."""
    if not value.size:
        return "empty"
    return f"from {value.min():.6g} to {value.max():.6g}"


def _time_line(
    executor: Any, context: Any, init: float, first: float, repeat: int, number: int
) -> str:
    """Return the line that TensorFlow's benchmark_model prints, with percentiles."""
    import numpy as np

    from tvm_fusionx.report.bench.timing import HIGH_PERCENTILE, LOW_PERCENTILE
    from tvm_fusionx.report.profile.profile import format_seconds

    def timed(runs: int) -> float:
        started = time.perf_counter()
        for _ in range(runs):
            executor.run()
        return (time.perf_counter() - started) / runs

    if context is None:
        warm_up = timed(WARM_UP_RUNS)
        taken = [timed(number) for _ in range(repeat)]
    else:
        # Timed on the device itself: the way there and back is no part of a run.
        evaluate = executor.module.time_evaluator
        warm_up = evaluate("run", context, number=WARM_UP_RUNS)().mean
        taken = list(evaluate("run", context, number=number, repeat=repeat)().results)
    parts = {
        "Init": init,
        "First": first,
        "Warm-up": warm_up,
        "Avg": float(np.mean(taken)),
        "Median": float(np.median(taken)),
        f"p{LOW_PERCENTILE}": float(np.percentile(taken, LOW_PERCENTILE)),
        f"p{HIGH_PERCENTILE}": float(np.percentile(taken, HIGH_PERCENTILE)),
    }
    times = ", ".join(f"{name}: {format_seconds(seconds)}" for name, seconds in parts.items())
    return times


def _peak_of(device: Device) -> MachinePeak | None:
    """Measure what a device can do at most, in a session of its own; None unless it is a CPU."""
    import tempfile

    from tvm_fusionx.measuring.machine_peak import GIGA, MachinePeak
    from tvm_fusionx.schedules import describe_cpu
    from tvm_fusionx.tuning.bench import Bench
    from tvm_fusionx.tuning.peak import measure_peak

    with Bench(device) as bench, tempfile.TemporaryDirectory(prefix="fusionx-peak-") as folder:
        found = measure_peak(bench, Path(folder))
    if found is None:
        return None
    cores = describe_cpu(device.tvm_target()).cores
    return MachinePeak(found.flops_per_second / GIGA, found.bytes_per_second / GIGA, cores)


def _print_profile(report: ProfileReport) -> None:
    from tvm_fusionx.report.profile.profile import format_seconds

    table = Table(
        Column("block", overflow="fold"), "template", "tuned", "time", "share", "GFLOP/s", "peak",
        "GB/s", box=None,
    )  # fmt: skip
    for column in table.columns[1:]:
        column.no_wrap = True
    for column in table.columns[3:]:
        column.justify = "right"
    slowest = sorted(report.kernels, key=lambda kernel: -kernel.seconds)
    for kernel in slowest[:PROFILE_ROWS]:
        speed = kernel.gflops_per_second
        table.add_row(
            kernel.name,
            kernel.template or "-",
            _TUNED[kernel.is_tuned],
            format_seconds(kernel.seconds),
            f"{kernel.share:.1%}",
            f"{speed:.3g}" if speed is not None else "-",
            f"{kernel.part_of_peak:.0%}" if kernel.part_of_peak is not None else "-",
            f"{kernel.gbytes_per_second:.3g}",
        )
    rest = slowest[PROFILE_ROWS:]
    if rest:
        seconds = sum(kernel.seconds for kernel in rest)
        share = sum(kernel.share for kernel in rest)
        told = (format_seconds(seconds), f"{share:.1%}")
        table.add_row(f"{len(rest)} more", "", "", *told, "", "", "")
    templates = Table("template", "kernels", "time", "share", box=None)
    for column in templates.columns[1:]:
        column.justify = "right"
    for row in report.by_template():
        templates.add_row(
            row.template or "-", str(row.kernels), format_seconds(row.seconds), f"{row.share:.1%}"
        )
    console = Console()
    console.print(table)
    console.print(templates)
    if report.peak is not None:
        click.echo(f"Peak: {report.peak.gflops_per_second:.0f} GFLOP/s, measured.")
    click.echo(
        f"Sum of {len(report.kernels)} kernels: {format_seconds(report.sum_seconds)}; end to end: "
        f"{format_seconds(report.end_to_end_seconds)}, {report.gap_text()}."
    )
