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
    picture_option,
    planner_options,
    precision_option,
    target_option,
    tuning_records_option,
)
from tvm_fusionx.cli.progress import Stages


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
@picture_option("the arena over time")
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
    """Say what the ONNX file MODEL takes of memory as a bundle, and at which kernel.

    Of a model for TVM's virtual machine each part is told whose shapes no data decides.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm.relay.transform import InferType

    from tvm_fusionx.build.executors import VM, chosen_executor, why_virtual_machine
    from tvm_fusionx.build.fused_build import build_fused
    from tvm_fusionx.build.known_parts import known_parts
    from tvm_fusionx.build.memory import memory_of_build
    from tvm_fusionx.build.parameters import bind_parameters
    from tvm_fusionx.frontend.from_onnx import from_onnx
    from tvm_fusionx.output_file import check_writable, new_file
    from tvm_fusionx.report.memory.measured import written_arena_bytes
    from tvm_fusionx.report.memory.parts import Part, parts_json, parts_lines
    from tvm_fusionx.report.memory.picture import arena_picture

    for path in (picture, json_path):
        if path is not None:
            check_writable(path, model)
    with Stages(f"planning {model.name}") as stage:
        stage("importing")
        bound = bind_parameters(*from_onnx(bind(model, constants), shape=shape))
        is_for_machine = chosen_executor(bound, None) == VM
        reason = why_virtual_machine(InferType()(bound)) if is_for_machine else None
        modules = {model.stem: bound} if reason is None else known_parts(bound)
        parts = []
        for name, mod in modules.items():
            build = build_fused(
                mod, target, records=records, on_stage=stage, precision=precision, **choices
            )
            written = None
            if runs:
                stage("measuring")
                written = written_arena_bytes(build.library, build.log, tasks)
            parts.append(Part(name, memory_of_build(build.library, build.log, tasks), written))
    for line in parts_lines(parts, reason):
        click.echo(line)
    if json_path is not None:
        with new_file(json_path) as scratch:
            told = json.dumps(parts_json(parts, reason), indent=1)
            scratch.write_text(f"{told}\n", encoding="utf-8")
    if picture is not None and not parts:
        click.echo(f"{picture} is not written: no part has an arena that is known")
    elif picture is not None:
        hungriest = max(parts, key=lambda part: part.memory.plan.arena_bytes)
        with new_file(picture) as scratch:
            scratch.write_text(arena_picture(hungriest.memory, hungriest.name), encoding="utf-8")
