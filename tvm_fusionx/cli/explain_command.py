"""``fusionx explain``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tvm_fusionx.cli.options import (
    database_option,
    debug_option,
    input_shapes_option,
    json_option,
    measure_choice,
    measure_option,
    model_argument,
    planner_option,
    target_option,
)
from tvm_fusionx.cli.progress import Stages


@click.command("explain")
@model_argument
@target_option
@input_shapes_option
@planner_option
@measure_option
@database_option
@click.option(
    "--html",
    "html_path",
    type=click.Path(path_type=Path),
    help="Write the report as one HTML page that needs nothing else.",
)
@json_option
@debug_option
def command(
    model: Path,
    target: str,
    shape: dict[str, tuple[int, ...]] | None,
    planner: str,
    measure: bool,
    database: Path | None,
    html_path: Path | None,
    json_path: Path | None,
) -> None:
    """Say how the ONNX file MODEL is fused, and why each edge that is not fused is not."""
    from tvm_fusionx.relay_presence import require_relay

    require_relay()
    from tvm_fusionx.frontend import from_onnx
    from tvm_fusionx.output_file import check_writable, new_file
    from tvm_fusionx.report.explain import explain
    from tvm_fusionx.threads import threads as use_threads

    for path in (html_path, json_path):
        if path is not None:
            check_writable(path)
    if measure:
        use_threads()
    with Stages(f"explaining {model.name}") as stage:
        stage("importing")
        mod, _ = from_onnx(model, shape=shape)
        stage("planning")
        chosen = measure_choice(measure, database)
        report = explain(mod, target, planner=planner, measure=chosen).with_title(model.stem)
    if html_path is not None:
        with new_file(html_path) as scratch:
            report.save_html(scratch)
    if json_path is not None:
        with new_file(json_path) as scratch:
            scratch.write_text(json.dumps(report.to_json(), indent=2) + "\n", encoding="utf-8")
    click.echo(report.text())
    if html_path is not None:
        click.echo(f"Report: {html_path}")
