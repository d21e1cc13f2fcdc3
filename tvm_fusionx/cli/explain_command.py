"""``fusionx explain``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tvm_fusionx.cli.constants import ModelCommand, bind, constants_option
from tvm_fusionx.cli.options import (
    debug_option,
    input_shapes_option,
    json_option,
    model_argument,
    planner_options,
    target_option,
)
from tvm_fusionx.cli.progress import Stages


@click.command("explain", cls=ModelCommand)
@model_argument
@target_option
@input_shapes_option
@constants_option
@planner_options
@click.option(
    "--html",
    "html_path",
    type=click.Path(path_type=Path),
    help="Write the report as one HTML page that needs nothing else.",
)
@click.option(
    "--build",
    "with_build",
    is_flag=True,
    help="Also build: the report then tells each kernel's template and generated TIR.",
)
@click.option(
    "--profile",
    "with_profile",
    is_flag=True,
    help="Also build, and run on random inputs: the report then tells each block's share of time.",
)
@click.option(
    "--between",
    type=(str, str),
    metavar="NODE NODE",
    help="Only say whether these two nodes are one kernel, and otherwise what keeps them apart.",
)
@click.option(
    "--netron",
    "netron_path",
    type=click.Path(path_type=Path),
    help="Write blocks and operators as an ONNX file to look at in Netron.",
)
@click.option(
    "--model-explorer",
    "explorer_path",
    type=click.Path(path_type=Path),
    help="Write blocks and operators as JSON for Model Explorer.",
)
@json_option
@debug_option
def command(
    model: Path,
    target: str,
    shape: dict[str, tuple[int, ...]] | None,
    constants: dict[str, Any],
    choices: dict[str, Any],
    html_path: Path | None,
    with_build: bool,
    with_profile: bool,
    between: tuple[str, str] | None,
    netron_path: Path | None,
    explorer_path: Path | None,
    json_path: Path | None,
) -> None:
    """Say how the ONNX file MODEL is fused, and why each edge that is not fused is not."""
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.build.parameters import bind_parameters
    from tvm_fusionx.build.pipeline import check_runs_here
    from tvm_fusionx.frontend import from_onnx
    from tvm_fusionx.inputs import inputs_of, random_inputs
    from tvm_fusionx.output_file import check_writable, new_file
    from tvm_fusionx.report.explain.explain import explain
    from tvm_fusionx.report.explain.model_explorer import save_model_explorer
    from tvm_fusionx.report.explain.netron import save_netron
    from tvm_fusionx.threads import threads as use_threads

    for path in (html_path, netron_path, explorer_path, json_path):
        if path is not None:
            check_writable(path, model)
    if with_profile:
        check_runs_here(target)
    if choices["measure"] or with_profile:
        use_threads()
    with Stages(f"explaining {model.name}") as stage:
        stage("importing")
        mod, params = from_onnx(bind(model, constants), shape=shape)
        stage("planning")
        report = explain(bind_parameters(mod, params), target, **choices).with_title(model.stem)
        if with_build or with_profile:
            stage("building")
            arrays = random_inputs(inputs_of(mod, params)) if with_profile else None
            report = _built(report, mod, params, target, arrays, stage, choices)
    if html_path is not None:
        with new_file(html_path) as scratch:
            report.save_html(scratch)
    if json_path is not None:
        with new_file(json_path) as scratch:
            scratch.write_text(json.dumps(report.to_json(), indent=2) + "\n", encoding="utf-8")
    if report.source is not None and netron_path is not None:
        save_netron(report.source, report.title, netron_path)
    if report.source is not None and explorer_path is not None:
        save_model_explorer(report.source, report.title, explorer_path)
    click.echo(str(report.between(*between)) if between else report.text())
    if html_path is not None:
        click.echo(f"Report: {html_path}")


def _built(
    report: Any,
    mod: Any,
    params: Any,
    target: str,
    arrays: Any,
    stage: Callable[[str], None],
    choices: dict[str, Any],
) -> Any:
    """Return the report of a built model; with the times of a run where there are arrays for one.

    For the executor that `fusionx compile` takes.
    """
    from tvm_fusionx.build.executors import VM, chosen_executor
    from tvm_fusionx.build.fused_build import build_fused
    from tvm_fusionx.build.vm_program import build_for_machine
    from tvm_fusionx.report.explain.explain import with_schedules
    from tvm_fusionx.report.explain.of_machine import with_machine_profile, with_machine_schedules
    from tvm_fusionx.report.profile.machine_profile import profile_machine
    from tvm_fusionx.report.profile.profile import profile

    if chosen_executor(mod, None) == VM:
        program = build_for_machine(mod, target, params, on_stage=stage, **choices)
        log = program.build.log  # type: ignore[union-attr]
        report = with_machine_schedules(report, log)
        if arrays is None:
            return report
        stage("timing kernels within runs")
        return with_machine_profile(report, profile_machine(program, arrays, peak=None), log)
    build = build_fused(mod, target, params=params, on_stage=stage, **choices)
    report = with_schedules(report, build.library, build.log)
    if arrays is None:
        return report
    stage("timing each kernel")
    return report.with_profile(profile(build.library, arrays, peak=None))
