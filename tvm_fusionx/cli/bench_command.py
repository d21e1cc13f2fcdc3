"""``fusionx bench``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from tvm_fusionx.cli.constants import ModelCommand, bind, constants_option, without_bound
from tvm_fusionx.cli.device_options import DeviceChoice, device_options
from tvm_fusionx.cli.options import (
    Duration,
    debug_option,
    input_shapes_option,
    inputs_option,
    json_option,
    model_argument,
    target_option,
    threads_option,
    tuning_records_option,
)
from tvm_fusionx.cli.progress import Stages
from tvm_fusionx.errors import EXIT_OK, EXIT_WRONG_RESULT

if TYPE_CHECKING:
    from tvm_fusionx.report.bench.bench_result import BenchResult
    from tvm_fusionx.report.bench.loaded_runs import LoadedRuns

DEFAULT_SIDES = "tvm,unfused,ort,openvino,mnn,ncnn"
DEVICE_SIDES = "tvm,unfused"
DEFAULT_REPEAT = 50
SUSTAINED_SECONDS = "30"
MILLISECONDS = 1e3


@click.command("bench", cls=ModelCommand)
@model_argument
@click.option(
    "--vs",
    help=f"What to compare with; by default {DEFAULT_SIDES}, and on a device {DEVICE_SIDES}.",
)
@target_option
@device_options
@input_shapes_option
@constants_option
@inputs_option
@tuning_records_option
@threads_option
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    default=DEFAULT_REPEAT,
    show_default=True,
    help="Timed runs of each side.",
)
@click.option(
    "--sustained",
    type=Duration(),
    is_flag=False,
    flag_value=SUSTAINED_SECONDS,
    help="Also run each side for so long in one go, 30s by default: does it keep its speed?",
)
@click.option(
    "--busy",
    callback=lambda ctx, param, value: _loads(value),
    metavar="K[,K...]",
    help="Also time each side beside K busy processes, as 0,1,2,4: how long runs take then, and"
    " what they cost; ours on TVM's thread pool too.",
)
@click.option(
    "--tuning-budget",
    "budget",
    metavar="TIME|TRIALS",
    help="Also compare what tuning gives: sides fusionx-tuned and tvm-metaschedule (TVM's own"
    " pipeline and tuner), or the one of them that --vs names; each may spend so much, such as"
    " 10m, or 200 trials.",
)
@click.option(
    "--conversions",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Keep here what the other compilers and converters make of the model, for the next time.",
)
@json_option
@debug_option
def command(
    model: Path,
    vs: str | None,
    target: str,
    device: DeviceChoice,
    shape: dict[str, tuple[int, ...]] | None,
    constants: dict[str, Any],
    inputs: Path | None,
    records: Path | None,
    threads: int | None,
    repeat: int,
    sustained: float | None,
    busy: tuple[int, ...],
    budget: str | None,
    conversions: Path | None,
    json_path: Path | None,
) -> int:
    """Time the ONNX file MODEL on every side, taking turns in one process with the same threads.

    With --device: on that device, whose target takes the place of --target, in one session. Exits
    with 1 where ours computed something else than the reference.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.inputs import read_inputs
    from tvm_fusionx.output_file import check_writable
    from tvm_fusionx.report.bench.bench import bench
    from tvm_fusionx.report.bench.bench_result import OURS
    from tvm_fusionx.tuning.sides import TuningBudget, split_sides

    if vs is None:
        vs = DEFAULT_SIDES if device.name is None else DEVICE_SIDES
    sides, tuned = split_sides(
        tuple(side.strip() for side in vs.split(",") if side.strip()),
        TuningBudget.parse(budget) if budget is not None else None,
    )
    if json_path is not None:
        check_writable(json_path, model, inputs)
    chosen = device.find()
    with Stages(f"benchmarking {model.name}") as stage:
        result = bench(
            bind(model, constants),
            target,
            sides,
            device=chosen,
            threads=threads,
            repeat=repeat,
            inputs=without_bound(read_inputs(inputs), constants) if inputs is not None else None,
            shape=shape,
            records=records,
            sustained=sustained,
            busy=busy,
            tuned=tuned,
            conversions=conversions,
            on_stage=stage,
        )
    if json_path is not None:
        result.save_json(json_path)
    print_result(result)
    return EXIT_WRONG_RESULT if OURS in result.errors else EXIT_OK


def print_result(result: BenchResult) -> None:
    """Print a benchmark as a table, fastest side first, and what could not run below it."""
    console = Console()
    console.print(
        f"{result.model}: {result.ops} operators; {result.device}; {result.threads} threads; "
        f"max rel err {result.max_rel_err:.2g}",
        highlight=False,
    )
    table = Table("side", "median ms", "p10", "p90", "runs", "fusionx is", "kernels", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for side, latency in sorted(result.latency_ms.items(), key=lambda item: item[1].median):
        ratio = result.speedup_over(side)
        kernels = result.kernels.get(side)
        table.add_row(
            side,
            f"{latency.median:.3g}",
            f"{latency.p10:.3g}",
            f"{latency.p90:.3g}",
            str(latency.n),
            "" if side == "fusionx" or ratio is None else f"{ratio:.2f}x as fast",
            str(kernels) if kernels is not None else "",
            style="bold" if side == "fusionx" else None,
        )
    console.print(table)
    if result.sustained_ms:
        console.print(_sustained_table(result))
    for load, row in result.loaded_ms.items():
        console.print(_loaded_table(load, row))
    for side, facts in result.tuning.items():
        console.print(
            f"{side}: {facts['trials']} trials ({facts['failed']} failed) in"
            f" {facts['spent_s']:.0f} s, on {facts['reached']} of {facts['tasks']} kernels",
            highlight=False,
        )
    if result.load_s:
        console.print(_starts(result))
    for remark in result.remarks:
        console.print(remark, highlight=False, markup=False)
    for side, message in result.errors.items():
        console.print(f"{side}: {message}", highlight=False, markup=False)


def _sustained_table(result: BenchResult) -> Table:
    """Return what each side took run after run, the fastest at the end first."""
    names = ("sustained", "first ms", "last ms", "last/first", "median", "p10", "p90", "runs", "s")
    table = Table(*names, box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for side, each in sorted(result.sustained_ms.items(), key=lambda item: item[1].last):
        table.add_row(
            side,
            f"{each.first:.3g}",
            f"{each.last:.3g}",
            f"{each.throttling:.2f}",
            f"{each.latency.median:.3g}",
            f"{each.latency.p10:.3g}",
            f"{each.latency.p90:.3g}",
            str(each.latency.n),
            f"{each.seconds:.0f}",
            style="bold" if side == "fusionx" else None,
        )
    return table


def _loads(value: str | None) -> tuple[int, ...]:
    """Return the numbers of a list such as ``0,1,2,4``, each once."""
    try:
        return tuple(dict.fromkeys(int(word) for word in value.split(","))) if value else ()
    except ValueError as error:
        raise click.BadParameter(f"expected numbers, as 0,1,2,4; found {value!r}") from error


def _loaded_table(load: str, row: dict[str, LoadedRuns]) -> Table:
    """Return what each side took beside so many busy processes, the fastest first."""
    names = (f"beside {load} busy", "median ms", "p90", "p99", "CPU ms", "switches", "runs")
    table = Table(*names, box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for side, each in sorted(row.items(), key=lambda item: item[1].median):
        numbers = (each.median, each.p90, each.p99, each.cpu_ms, each.switches)
        table.add_row(
            side,
            *(f"{number:.3g}" for number in numbers),
            str(each.n),
            style="bold" if side == "fusionx" else None,
        )
    return table


def _starts(result: BenchResult) -> Table:
    """Return what loading and the first run took, which are no part of the other runs."""
    table = Table("side", "load ms", "first run ms", box=None)
    for side, seconds in result.load_s.items():
        row = (seconds * MILLISECONDS, result.first_run_s[side] * MILLISECONDS)
        table.add_row(side, *(f"{value:.3g}" for value in row))
    return table
