"""``fusionx report-slow``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvm_fusionx.cli.constants import ModelCommand, bind, constants_option
from tvm_fusionx.cli.options import (
    FiniteRange,
    debug_option,
    input_shapes_option,
    inputs_option,
    planner_options,
    precision_option,
    target_option,
    threads_option,
    tuning_records_option,
)
from tvm_fusionx.cli.progress import Stages

if TYPE_CHECKING:
    from tvm_fusionx.report.slow.slow_report import SlowReport

# As in `report.profile.limits`, which this module must not import: it loads TVM.
BELOW = 0.3

# Operators of a block that are shown, and refusals.
SHOWN_OPERATORS = 4
SHOWN_REFUSALS = 3


@click.command("report-slow", cls=ModelCommand)
@click.argument("file", metavar="MODEL|REPORT", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the report here.")
@click.option("--replay", is_flag=True, help="Build and time the blocks of a report here.")
@click.option(
    "--below",
    type=FiniteRange(min=0, min_open=True),
    default=BELOW,
    show_default=True,
    help="The part of its limit under which a block is slow.",
)
@click.option(
    "--names",
    is_flag=True,
    help="Keep the names of blocks and of the model's nodes, which may be private.",
)
@inputs_option
@target_option
@threads_option
@input_shapes_option
@constants_option
@planner_options
@tuning_records_option
@precision_option
@debug_option
def command(
    file: Path,
    output: Path | None,
    replay: bool,
    below: float,
    names: bool,
    inputs: Path | None,
    target: str,
    threads: int | None,
    shape: dict[str, tuple[int, ...]] | None,
    constants: dict[str, Any],
    choices: dict[str, Any],
    records: Path | None,
    precision: str | None,
) -> None:
    """Write the slow blocks of the ONNX file MODEL without its weights, or --replay a REPORT.

    The report has operators, shapes, times, limits, templates and their refusals; no weight, and
    no name of the model's. Whoever gets it sees the same kernels with random weights.
    """
    from tvm_fusionx._tvm.presence import require_relay

    if replay == (output is not None):
        raise click.UsageError("Give either -o REPORT.json, or --replay with a report.")
    require_relay()
    from tvm_fusionx.build.pipeline import check_runs_here
    from tvm_fusionx.threads import threads as set_threads

    check_runs_here(target)
    set_threads(threads)
    if output is None:
        _replay(file, target)
        return
    from tvm_fusionx.build.fused_build import build_fused, kernel_notes
    from tvm_fusionx.build.library import describe_library
    from tvm_fusionx.frontend.from_onnx import from_onnx
    from tvm_fusionx.inputs import fill_inputs, inputs_of, read_inputs
    from tvm_fusionx.output_file import check_writable
    from tvm_fusionx.report.profile.profile import profile
    from tvm_fusionx.report.slow.slow_report import slow_report, write_slow_report
    from tvm_fusionx.schedules import resolve_target

    check_writable(output, file, inputs)
    given = {} if inputs is None else read_inputs(inputs)
    with Stages(f"looking at {file.name}") as stage:
        stage("importing")
        mod, params = from_onnx(bind(file, constants), shape=shape)
        build = build_fused(
            mod,
            target,
            params=params,
            records=records,
            on_stage=stage,
            precision=precision,
            **choices,
        )
        library = describe_library(
            build.library,
            model="",
            target=target,
            inputs=inputs_of(mod, params),
            kernels=kernel_notes(build),
        )
        stage("profiling")
        profiled = profile(library, fill_inputs(given, library.inputs, "random"))
        report = slow_report(build, profiled, resolve_target(target), below, names)
    write_slow_report(report, output)
    _print_written(report, output)


def _print_written(report: SlowReport, output: Path) -> None:
    from tvm_fusionx.report.profile.profile import format_seconds

    for block in report.blocks:
        times = f"{block.count} x " if block.count > 1 else ""
        told = _took(block.seconds, block.limit_seconds, block.template)
        click.echo(f"{times}{told}: {_operators(block.operators)}")
    for seconds, reason in report.left_out:
        click.echo(f"left out: {format_seconds(seconds)}: {reason}")
    click.echo(
        f"{output}: {len(report.blocks)} blocks under {report.below:.0%} of their limit, without "
        "weights."
    )


def _replay(file: Path, target: str) -> None:
    from tvm_fusionx.build.library import build_versions
    from tvm_fusionx.measuring.machine_peak import measure_machine_peak
    from tvm_fusionx.records.device import processor_name
    from tvm_fusionx.report.slow.replay import replay
    from tvm_fusionx.report.slow.slow_report import read_slow_report
    from tvm_fusionx.report.slow.tried_apart import try_apart
    from tvm_fusionx.schedules import resolve_target
    from tvm_fusionx.threads import threads_in_use

    report = read_slow_report(file)
    for side, processor, count, built_for, versions in (
        ("There", report.processor, report.threads, report.target, report.versions),
        ("Here", processor_name(), threads_in_use(), resolve_target(target), build_versions()),
    ):
        told = ", ".join(f"{name} {version}" for name, version in versions.items())
        click.echo(f"{side}: {processor}, {count} threads, {built_for}; {told}")
    with Stages(f"replaying {file.name}") as stage:
        stage("building its blocks in a process of their own")
        try_apart(file, report, target)
        stage("what this machine does at most")
        peak = measure_machine_peak(target)
        for place, block in enumerate(report.blocks):
            stage(f"block {place + 1} of {len(report.blocks)}")
            where = f"report {file}, block {place}, block"
            here = replay(block, target, where=where, peak=peak)
            click.echo(f"block {place}: {_operators(block.operators)}")
            for side, of in (("there", block), ("here", here)):
                click.echo(f"  {side:5} {_took(of.seconds, of.limit_seconds, of.template)}")
            # The last that were tried come nearest to a template that serves it.
            for refusal in here.refusals[-SHOWN_REFUSALS:]:
                click.echo(f"  not {refusal.template}: {refusal.reason}")


def _took(seconds: float, limit_seconds: float | None, template: str) -> str:
    from tvm_fusionx.report.profile.profile import format_seconds

    told = format_seconds(seconds)
    if limit_seconds is not None and seconds:
        told += f", {limit_seconds / seconds:.0%} of its limit {format_seconds(limit_seconds)},"
    return f"{told} by {template or '-'}"


def _operators(told: str) -> str:
    names = told.split("+")
    more = len(names) - SHOWN_OPERATORS
    shown = "+".join(names[:SHOWN_OPERATORS])
    return f"{shown} and {more} more" if more > 0 else shown
