"""``fusionx zoo``."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tvm_fusionx.cli.options import debug_option
from tvm_fusionx.cli.progress import Stages


@click.group("zoo")
@debug_option
def command() -> None:
    """List published models, or write one as an ONNX file; nothing is downloaded."""


@command.command("list")
@debug_option
def list_models() -> None:
    """Print every model's name, source and size."""
    from tvm_fusionx import zoo

    table = Table("name", "model", box=None)
    for name in (*zoo.names(), *zoo.further_names()):
        table.add_row(name, zoo.summary(name))
    Console().print(table)


@command.command("export")
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The ONNX file; NAME.onnx by default.",
)
@click.option(
    "--inputs",
    "inputs_path",
    type=click.Path(path_type=Path),
    help="Also write sample inputs for `fusionx run` to this file (.npz).",
)
@debug_option
def export_model(name: str, output: Path | None, inputs_path: Path | None) -> None:
    """Write the model called NAME as an ONNX file."""
    from tvm_fusionx import zoo
    from tvm_fusionx.inputs import write_arrays
    from tvm_fusionx.output_file import check_writable, new_file

    path = output or Path(f"{name}.onnx")
    what = zoo.summary(name)
    for wanted in (path, inputs_path):
        if wanted is not None:
            check_writable(wanted)
    with Stages(f"exporting {name}") as stage:
        stage("writing")
        with new_file(path) as scratch:
            exported = zoo.export(name, scratch)
    click.echo(f"{path}: {what}")
    for key, shape in exported.shapes.items():
        click.echo(f"  {key}: {exported.dtypes[key]} {list(shape)}")
    shapes = " ".join(
        f"{key}:[{','.join(map(str, shape))}]" for key, shape in exported.shapes.items()
    )
    click.echo(f"fusionx compile {shlex.quote(str(path))} --input-shapes {shlex.quote(shapes)}")
    if inputs_path is not None:
        with new_file(inputs_path) as scratch:
            write_arrays(scratch, zoo.sample_inputs(name))
        click.echo(f"Inputs: {inputs_path}")
