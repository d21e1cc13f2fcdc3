"""``fusionx verify``."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Column, Table

from tvm_fusionx.cli.constants import ModelCommand, bind, constants_option, without_bound
from tvm_fusionx.cli.options import (
    FiniteRange,
    debug_option,
    input_shapes_option,
    inputs_option,
    json_option,
    model_argument,
    precision_option,
    target_option,
    threads_option,
    tuning_records_option,
)
from tvm_fusionx.cli.progress import Stages
from tvm_fusionx.errors import EXIT_OK, EXIT_WRONG_RESULT

if TYPE_CHECKING:
    from tvm_fusionx.report.verify.difference import Difference
    from tvm_fusionx.report.verify.verdict import VerifyReport

# Blocks shown unless all are asked for: the worst.
SHOWN_BLOCKS = 10


@click.command("verify", cls=ModelCommand)
@model_argument
@target_option
@input_shapes_option
@constants_option
@inputs_option
@tuning_records_option
@precision_option
@threads_option
@click.option(
    "--reference",
    type=click.Choice(["ort", "tvm"]),
    help="What outputs are held to: ONNX Runtime (default where installed), or TVM unoptimised.",
)
@click.option(
    "--tolerance",
    type=FiniteRange(min=0),
    default=1e-5,
    show_default=True,
    help="Largest difference allowed, relative to the largest output.",
)
@click.option("--bisect", is_flag=True, help="Write a reproduction of the first wrong block.")
@click.option(
    "-o",
    "--output",
    "reproduction",
    type=click.Path(path_type=Path),
    default=Path("fusionx-reproduction"),
    show_default=True,
    help="Folder for the reproduction.",
)
@click.option("--all", "show_all", is_flag=True, help="Show every block, not only the worst.")
@json_option
@debug_option
def command(
    model: Path,
    target: str,
    shape: dict[str, tuple[int, ...]] | None,
    constants: dict[str, Any],
    inputs: Path | None,
    records: Path | None,
    precision: str | None,
    threads: int | None,
    reference: str | None,
    tolerance: float,
    bisect: bool,
    reproduction: Path,
    show_all: bool,
    json_path: Path | None,
) -> int:
    """Compile the ONNX file MODEL and check every block and output against a reference."""
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.devices.opencl_plugin import load_opencl
    from tvm_fusionx.frontend import from_onnx
    from tvm_fusionx.inputs import inputs_of, random_inputs, read_inputs
    from tvm_fusionx.output_file import check_writable, new_file
    from tvm_fusionx.processors.targets import is_cpu, resolve_target
    from tvm_fusionx.report.verify.verify import verify
    from tvm_fusionx.threads import threads as set_threads

    if json_path is not None:
        check_writable(json_path, model, inputs)
    if not is_cpu(resolve_target(target)):
        load_opencl()
    set_threads(threads)
    if reference is None:
        reference = "ort" if importlib.util.find_spec("onnxruntime") else "tvm"
    with Stages(f"verifying {model.name}") as stage:
        stage("importing")
        source = bind(model, constants)
        mod, params = from_onnx(source, shape=shape)
        arrays = (
            without_bound(read_inputs(inputs), constants)
            if inputs is not None
            else random_inputs(inputs_of(mod, params))
        )
        report = verify(
            mod,
            params,
            arrays,
            target,
            reference=source if reference == "ort" else None,
            bisect=bisect,
            tolerance=tolerance,
            precision=precision,
            records=records,
            reproduction=reproduction,
            on_stage=stage,
        )
    if json_path is not None:
        with new_file(json_path) as scratch:
            scratch.write_text(json.dumps(report.to_json(), indent=2) + "\n", encoding="utf-8")
    _print_report(report, show_all)
    return EXIT_OK if report.ok else EXIT_WRONG_RESULT


def _print_report(report: VerifyReport, show_all: bool) -> None:
    table = Table(
        "", Column("of", overflow="fold"), "max abs", "max rel", "cosine", "NaN", "Inf", box=None
    )
    for column in table.columns[2:]:
        column.justify = "right"
    for position, difference in enumerate(report.end_to_end):
        within = difference.is_within(report.end_to_end_tolerance)
        _add_row(table, within, f"output {position} beside {report.reference}", difference)
    blocks = sorted(report.blocks, key=lambda block: (block.ok, -block.difference.max_rel))
    shown = blocks if show_all else blocks[:SHOWN_BLOCKS]
    for block in shown:
        _add_row(table, block.ok, block.name, block.difference)
    console = Console()
    console.print(table)
    if len(shown) < len(blocks):
        click.echo(f"{len(blocks) - len(shown)} blocks that differ less are not shown (--all).")
    click.echo(report.summary())
    if report.reproduction is not None:
        click.echo(f"Reproduction: python {report.reproduction / 'reproduce.py'}")


def _add_row(table: Table, within: bool, name: str, difference: Difference) -> None:
    table.add_row(
        "[green]ok[/green]" if within else "[bold red]WRONG[/bold red]",
        name + (f" ({difference.problem})" if difference.problem else ""),
        f"{difference.max_abs:.3g}",
        f"{difference.max_rel:.3g}",
        f"{difference.cosine:.9f}",
        str(difference.nans),
        str(difference.infs),
    )
