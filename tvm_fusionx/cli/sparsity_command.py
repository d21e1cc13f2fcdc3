"""``fusionx sparsity``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tvm_fusionx.cli.constants import ModelCommand, bind, constants_option
from tvm_fusionx.cli.options import (
    FiniteRange,
    debug_option,
    input_shapes_option,
    json_option,
    model_argument,
    target_option,
)
from tvm_fusionx.cli.progress import Stages


@click.command("sparsity", cls=ModelCommand)
@model_argument
@target_option
@input_shapes_option
@constants_option
@click.option(
    "--dry-run",
    "rate",
    metavar="RATE",
    type=FiniteRange(min=1),
    help="Judge weights as if pruning had left one number of RATE.",
)
@click.option(
    "--measure",
    is_flag=True,
    help="Time each layer that could be sparse, both ways, on this machine.",
)
@json_option
@debug_option
def command(
    model: Path,
    target: str,
    shape: dict[str, tuple[int, ...]] | None,
    constants: dict[str, Any],
    rate: float | None,
    measure: bool,
    json_path: Path | None,
) -> None:
    """Say which zeros the layers of the ONNX file MODEL have, and what leaving them out gains."""
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.build.pipeline import check_runs_here
    from tvm_fusionx.frontend.from_onnx import from_onnx
    from tvm_fusionx.output_file import check_writable, new_file
    from tvm_fusionx.report.sparsity.layers import layers_of
    from tvm_fusionx.report.sparsity.measure import measure_layer
    from tvm_fusionx.report.sparsity.table import sparsity_lines
    from tvm_fusionx.schedules import resolve_target
    from tvm_fusionx.threads import threads

    if json_path is not None:
        check_writable(json_path, model)
    if measure:
        check_runs_here(target)
        threads()
    layers = []
    with Stages(f"looking at {model.name}") as stage:
        stage("importing")
        mod, params = from_onnx(bind(model, constants), shape=shape)
        stage("judging layers")
        for layer, choice in layers_of(mod, target, params, rate):
            told = layer
            if measure and choice is not None:
                stage(f"timing {layer.name}")
                dense, sparse = measure_layer(choice, resolve_target(target))
                told = replace(layer, dense_us=dense, sparse_us=sparse)
            layers.append(told)
    for line in sparsity_lines(layers):
        click.echo(line)
    if json_path is not None:
        with new_file(json_path) as scratch:
            told_all = {"target": target, "layers": [layer.as_json() for layer in layers]}
            scratch.write_text(json.dumps(told_all, indent=1) + "\n", encoding="utf-8")
