"""``fusionx quantize``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tvm_fusionx.cli.options import (
    Duration,
    debug_option,
    guard_options,
    json_option,
    model_argument,
    picture_option,
    target_option,
)
from tvm_fusionx.cli.progress import Stages
from tvm_fusionx.cli.user_file import reporting, run_file
from tvm_fusionx.errors import InputError

# As in the room of quantising, which needs the packages of ONNX.
METHODS = ("auto", "minmax", "percentile", "entropy", "mse")
ENGINES = ("onnxruntime", "fusionx")
BITS = ("4", "8")
BLOCKS = ("32", "64", "128")


@click.command("quantize")
@model_argument
@click.option(
    "--calibration",
    type=click.Path(path_type=Path),
    help="Inputs as they come in use: one .npz with an axis for the samples, or a folder of files.",
)
@guard_options
@click.option("--budget", type=Duration(), help="Time for the guard, such as 10m.")
@click.option("--resume", is_flag=True, help="Go on with the trials of OUT.journal.jsonl.")
@click.option("--no-guard", is_flag=True, help="Quantise every layer, whatever it costs.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default=METHODS[0],
    show_default=True,
    help="Ranges of activations; auto takes the best for each tensor.",
)
@click.option("--no-smoothing", is_flag=True, help="Leave outliers of channels where they are.")
@click.option("--products", is_flag=True, help="Quantise products of two activations too.")
@click.option("--measure", is_flag=True, help="Time each layer here; keep it in float if faster.")
@click.option("--samples", type=click.IntRange(min=1), help="Use the first so many samples.")
@click.option("--engine", type=click.Choice(ENGINES), help="What runs the model meanwhile.")
@click.option("--weights-only", type=click.Choice(BITS), help="Only weights, in so many bits.")
@click.option(
    "--block",
    type=click.Choice(BLOCKS),
    default=BLOCKS[0],
    show_default=True,
    help="Weights that share a scale, with --weights-only.",
)
@target_option
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="ONNX file.")
@picture_option("what each trial cost")
@json_option
@debug_option
def command(
    model: Path,
    calibration: Path | None,
    validation: str | None,
    max_drop: float,
    budget: float | None,
    resume: bool,
    no_guard: bool,
    method: str,
    no_smoothing: bool,
    products: bool,
    measure: bool,
    samples: int | None,
    engine: str | None,
    weights_only: str | None,
    block: str,
    target: str,
    output: Path,
    picture: Path | None,
    json_path: Path | None,
) -> None:
    """Quantise the ONNX file MODEL to 8 bits: standard ONNX, which other runtimes read too.

    Layers that cost too much accuracy stay in float. Every trial is in OUT.journal.jsonl, so that
    --resume goes on where the command was stopped.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.compress.quantize.quantize import quantize
    from tvm_fusionx.output_file import check_writable, new_file

    check_writable(output, model)
    for path in (picture, json_path):
        if path is not None:
            check_writable(path, model, output)
    if weights_only is not None:
        if picture is not None or json_path is not None:
            raise click.UsageError("--weights-only tries nothing: leave --picture and --json out.")
        _write_weights(model, int(weights_only), int(block), output)
        return
    if calibration is None:
        raise click.UsageError("Missing option '--calibration' (only --weights-only needs none).")
    metric = None if validation is None else load_function(validation)
    with Stages(f"quantising {model.name}") as stage:
        result = quantize(
            model,
            calibration,
            metric=metric,
            max_drop=max_drop,
            target=target,
            method=method,
            smoothing=not no_smoothing,
            products=products,
            guarded=not no_guard,
            measure=measure,
            budget_seconds=budget,
            journal=output.with_name(f"{output.name}.journal.jsonl"),
            resume=resume,
            samples=samples,
            engine=engine,
            on_stage=stage,
        )
    result.save(output)
    if json_path is not None:
        with new_file(json_path) as scratch:
            scratch.write_text(json.dumps(result.to_json(), indent=1) + "\n", encoding="utf-8")
    if picture is not None:
        with new_file(picture) as scratch:
            scratch.write_text(result.picture(model.stem), encoding="utf-8")
    click.echo(result.text())
    click.echo(f"fusionx compile {output}")


def _write_weights(model: Path, bits: int, block: int, output: Path) -> None:
    from tvm_fusionx.compress.quantize.weights_only import quantize_weights
    from tvm_fusionx.output_file import new_file

    changed = quantize_weights(model, bits, block=block)
    with new_file(output) as scratch:
        scratch.write_bytes(changed.SerializeToString())
    click.echo(f"weights in {bits} bits, {block} a scale\nfusionx compile {output}")


def load_function(words: str) -> Callable[..., Any]:
    """Return the function that ``FILE.py:FUNCTION`` names; the file is run.

    Raises
    ------
    InputError
        There is no such file or function, or the file fails.
    """
    path, _, name = words.rpartition(":")
    try:
        module = run_file(path or words)
    except ValueError as error:
        raise _refused(words, str(error)) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise _refused(words, f"no function {name} in {path or words}")
    return reporting(function, f"{name} of {path}")


def _refused(words: str, found: str) -> InputError:
    return InputError(
        f"--validation {words}",
        expected="FILE.py:FUNCTION, a function of run that returns a number",
        found=found,
        next_step="Write one; run(inputs) takes arrays by name and returns the outputs.",
    )
