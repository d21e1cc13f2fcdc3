"""``fusionx run``."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvm_fusionx.cli.device_options import DeviceChoice, device_options
from tvm_fusionx.cli.options import debug_option, inputs_option, threads_option
from tvm_fusionx.cli.profile_table import print_profile
from tvm_fusionx.cli.progress import Stages
from tvm_fusionx.cli.time_line import time_line

if TYPE_CHECKING:
    from tvm_fusionx.devices import Device
    from tvm_fusionx.measuring.machine_peak import MachinePeak
    from tvm_fusionx.report.profile.profile import ProfileReport

# Runs before the timed ones of --print-time, after the first.
WARM_UP_RUNS = 3

DEFAULT_REPEAT = 50

# As tvmc names them; what `tvm_fusionx.inputs.fill_inputs` knows.
FILL_MODES = ("zeros", "ones", "random")


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
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    default=WARM_UP_RUNS,
    show_default=True,
    help="Runs before those that --print-time measures, after the first.",
)
@click.option(
    "--fill-mode",
    type=click.Choice(FILL_MODES),
    help="What inputs that --inputs does not name are filled with; without --inputs random.",
)
@click.option(
    "--print-top",
    type=click.IntRange(min=1),
    metavar="N",
    help="Print the N largest values of each output, and where they stand.",
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
    warmup: int,
    fill_mode: str | None,
    print_top: int | None,
    threads: int | None,
    device: DeviceChoice,
) -> None:
    """Run LIBRARY, a file that `fusionx compile` wrote, here or with --device there."""
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx._tvm.arrays import numpy_of
    from tvm_fusionx.build.fit import fitted
    from tvm_fusionx.build.kernels import KernelGraph
    from tvm_fusionx.build.library import load_programs
    from tvm_fusionx.build.vm_file import load_model
    from tvm_fusionx.build.vm_program import VmProgram
    from tvm_fusionx.cli.run_machine import run_machine
    from tvm_fusionx.devices import open_session
    from tvm_fusionx.inputs import fill_inputs, read_inputs
    from tvm_fusionx.output_file import check_writable
    from tvm_fusionx.report.bench.plain_tvm import set_inputs
    from tvm_fusionx.report.bench.timing import threads_apart
    from tvm_fusionx.report.profile.profile import profile
    from tvm_fusionx.threads import threads as set_threads

    for path in (outputs, trace):
        if path is not None:
            check_writable(path, library, inputs)
    count = set_threads(threads)
    chosen = device.find()
    peak = _peak_of(chosen) if chosen is not None and (show_profile or trace is not None) else None
    report: ProfileReport | None = None
    with contextlib.ExitStack() as scope:
        started = time.perf_counter()
        if chosen is None:
            loaded_model, context = load_model(library), None
            if isinstance(loaded_model, VmProgram):
                is_profiled = show_profile or trace is not None
                timing = (repeat, number, warmup, count) if print_time else None
                seconds = time.perf_counter() - started
                results, found = run_machine(
                    loaded_model, inputs, fill_mode, is_profiled, timing, seconds
                )
                _write_outputs(loaded_model, results, outputs)
                if print_top is not None:
                    _print_top(loaded_model, results, print_top)
                _tell_profile(found, show_profile, trace)
                return
            programs = loaded_model
        else:
            session = scope.enter_context(open_session(chosen))
            session.keep_threads_apart()
            programs, context = load_programs(library, session.load), session.context
        loading_seconds = time.perf_counter() - started
        given = {} if inputs is None else read_inputs(inputs)
        if inputs is None and fill_mode is None:
            click.echo("No --inputs: using random ones.", err=True)
        if inputs is None or fill_mode is not None:
            given = fill_inputs(given, programs[-1].inputs, fill_mode or "random")
        fit = fitted(programs, given)
        loaded, arrays = fit.program, fit.inputs
        if len(programs) > 1:
            click.echo(f"program {fit.number + 1} of {len(programs)}: {fit.text()}", err=True)
        started = time.perf_counter()
        executor = loaded.executor(context)
        init_seconds = loading_seconds + time.perf_counter() - started
        set_inputs(executor, arrays)
        started = time.perf_counter()
        executor.run()
        first_seconds = time.perf_counter() - started
        results = fit.cut(
            [numpy_of(executor.get_output(index)) for index in range(executor.get_num_outputs())]
        )
        _write_outputs(loaded, results, outputs)
        if print_top is not None:
            _print_top(loaded, results, print_top)
        with Stages(f"running {library.name}") as stage:
            if print_time:
                stage("timing")
                where = f"{count} threads" if chosen is None else f"on {chosen.name}"
                apart = threads_apart(count) if chosen is None else contextlib.nullcontext()
                with apart:
                    line = time_line(
                        executor, context, init_seconds, first_seconds, repeat, number, warmup
                    )
                click.echo(f"{line} ({repeat} x {number} runs, {where})")
            if show_profile or trace is not None:
                stage("profiling: what the machine does at most")
                kernels = len(KernelGraph.from_json(loaded.graph_json).kernels)
                done = itertools.count(1)
                report = profile(
                    loaded,
                    arrays,
                    on_kernel=lambda: stage(f"profiling: kernel {next(done)} of {kernels}"),
                    device=context,
                    peak="measure" if chosen is None else peak,
                )
    _tell_profile(report, show_profile, trace)


def _tell_profile(report: ProfileReport | None, is_shown: bool, trace: Path | None) -> None:
    """Print a profile, and write it as a trace, where that is asked for."""
    from tvm_fusionx.output_file import new_file
    from tvm_fusionx.report.profile.trace import chrome_trace

    if report is not None and is_shown:
        print_profile(report)
    if report is not None and trace is not None:
        with new_file(trace) as scratch:
            scratch.write_text(json.dumps(chrome_trace(report)), encoding="utf-8")


def _write_outputs(loaded: Any, results: list[Any], outputs: Path | None) -> None:
    """Write the results to the file, or say what distinguishes each."""
    from tvm_fusionx.inputs import write_arrays
    from tvm_fusionx.output_file import new_file

    if outputs is not None:
        names = [spec.name for spec in loaded.outputs]
        with new_file(outputs) as scratch:
            write_arrays(scratch, dict(zip(names, results, strict=True)))
        return
    for spec, result in zip(loaded.outputs, results, strict=True):
        # An output may end where the input does, or where the data says.
        shape = ",".join(map(str, result.shape))
        click.echo(f"{spec.name}:[{shape}] {spec.dtype}: {_describe(result)}")


def _print_top(loaded: Any, results: list[Any], count: int) -> None:
    """Print the largest values of each output with their places, the largest first."""
    import numpy as np

    for spec, result in zip(loaded.outputs, results, strict=True):
        order = np.argsort(result, axis=None, kind="stable")[::-1][:count]
        click.echo(f"{spec.name}: the {len(order)} largest of {result.size}")
        for place in order:
            where = ",".join(map(str, np.unravel_index(place, result.shape)))
            click.echo(f"  [{where}] {float(result.flat[place]):.6g}")


def _describe(value: Any) -> str:
    """Return what distinguishes an array at a glance: its range."""
    if not value.size:
        return "empty"
    return f"from {float(value.min()):.6g} to {float(value.max()):.6g}"


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
