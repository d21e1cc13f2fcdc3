"""``fusionx reuse``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tvm_fusionx.cli.options import (
    FiniteRange,
    debug_option,
    guard_options,
    json_option,
    model_argument,
    target_option,
)
from tvm_fusionx.cli.progress import Stages


@click.command("reuse")
@model_argument
@click.option(
    "--calibration",
    required=True,
    type=click.Path(path_type=Path),
    help="Inputs as they come in use: one .npz with an axis for the samples, or a folder of files.",
)
@guard_options
@click.option(
    "--least-gain",
    type=FiniteRange(min=0),
    default=1.15,
    show_default=True,
    help="How many times faster a layer should be, by the estimate; 0 tries every layer.",
)
@click.option(
    "--max-error",
    type=FiniteRange(min=0),
    default=0.15,
    show_default=True,
    help="How far the results of one layer may move, relative to them.",
)
@click.option("--first", is_flag=True, help="The first of a cluster stands for it, not the mean.")
@click.option("--per-batch", is_flag=True, help="Images of a batch share clusters.")
@click.option(
    "--across-calls", is_flag=True, help="Keep the calibration set's clusters: calls share them."
)
@click.option("--samples", type=click.IntRange(min=1), help="Use the first so many samples.")
@target_option
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="ONNX file.")
@json_option
@debug_option
def command(
    model: Path,
    calibration: Path,
    validation: str | None,
    max_drop: float,
    least_gain: float,
    max_error: float,
    first: bool,
    per_batch: bool,
    across_calls: bool,
    samples: int | None,
    target: str,
    output: Path,
    json_path: Path | None,
) -> None:
    """Let similar rows of the layers of the ONNX file MODEL share products, where that pays.

    The choices are a property of the file, which `fusionx compile` follows. Results are
    approximate: layers whose reuse costs too much accuracy, or gains too little, compute all.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.cli.quantize_command import load_function
    from tvm_fusionx.compress.similar.reuse import reuse
    from tvm_fusionx.output_file import check_writable, new_file
    from tvm_fusionx.reuse.choice import FIRST, MEAN

    check_writable(output, model)
    if json_path is not None:
        check_writable(json_path, model, output)
    with Stages(f"looking at {model.name}") as stage:
        result = reuse(
            model,
            calibration,
            metric=None if validation is None else load_function(validation),
            max_drop=max_drop,
            target=target,
            least_gain=least_gain,
            max_error=max_error,
            representative=FIRST if first else MEAN,
            per_batch=per_batch,
            across_calls=across_calls,
            samples=samples,
            on_stage=stage,
        )
    result.save(output)
    if json_path is not None:
        with new_file(json_path) as scratch:
            scratch.write_text(json.dumps(result.to_json(), indent=1) + "\n", encoding="utf-8")
    click.echo(result.text())
    click.echo(f"fusionx compile {output}")
