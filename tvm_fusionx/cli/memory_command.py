"""``fusionx memory``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tvm_fusionx.cli.bundle_options import MOST_TASKS
from tvm_fusionx.cli.constants import ModelCommand, bind, constants_option
from tvm_fusionx.cli.options import (
    debug_option,
    input_shapes_option,
    json_option,
    model_argument,
    planner_options,
    precision_option,
    target_option,
    tuning_records_option,
)
from tvm_fusionx.cli.progress import Stages

PICTURE = ".svg"


@click.command("memory", cls=ModelCommand)
@model_argument
@target_option
@input_shapes_option
@constants_option
@planner_options
@tuning_records_option
@precision_option
@click.option(
    "--tasks",
    type=click.IntRange(1, MOST_TASKS),
    default=1,
    show_default=True,
    help="Tasks of a parallel loop, each with a workspace of its own.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    help="Draw the arena over time into this file (.svg).",
)
@click.option(
    "--run",
    "runs",
    is_flag=True,
    help="Run it once as a bundle, on this machine, and say what of the arena was written.",
)
@json_option
@debug_option
def command(
    model: Path,
    target: str,
    shape: dict[str, tuple[int, ...]] | None,
    constants: dict[str, Any],
    choices: dict[str, Any],
    records: Path | None,
    precision: str | None,
    tasks: int,
    picture: Path | None,
    runs: bool,
    json_path: Path | None,
) -> None:
    """Say what the ONNX file MODEL takes of memory as a bundle, and at which kernel."""
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.build.fused_build import build_fused
    from tvm_fusionx.build.memory import memory_of_build, size_text
    from tvm_fusionx.frontend.from_onnx import from_onnx
    from tvm_fusionx.output_file import check_writable, new_file
    from tvm_fusionx.report.memory.measured import written_arena_bytes
    from tvm_fusionx.report.memory.picture import arena_picture
    from tvm_fusionx.report.memory.table import memory_lines

    if picture is not None and picture.suffix != PICTURE:
        raise click.UsageError(f"--picture {picture}: expected a name that ends in {PICTURE}.")
    for path in (picture, json_path):
        if path is not None:
            check_writable(path)
    with Stages(f"planning {model.name}") as stage:
        stage("importing")
        mod, params = from_onnx(bind(model, constants), shape=shape)
        build = build_fused(
            mod,
            target,
            params=params,
            records=records,
            on_stage=stage,
            precision=precision,
            **choices,
        )
        memory = memory_of_build(build.library, build.log, tasks)
        told = memory.as_json()
        if runs:
            stage("measuring")
            told["written_arena_bytes"] = written_arena_bytes(build.library, build.log, tasks)
    for line in memory_lines(memory):
        click.echo(line)
    if runs:
        click.echo(f"a run wrote {size_text(told['written_arena_bytes'])} of the arena")
    if json_path is not None:
        with new_file(json_path) as scratch:
            scratch.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    if picture is not None:
        with new_file(picture) as scratch:
            scratch.write_text(arena_picture(memory, model.stem), encoding="utf-8")
