"""``fusionx prune``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tvm_fusionx.cli.options import debug_option, json_option
from tvm_fusionx.cli.progress import Stages
from tvm_fusionx.errors import InputError

if TYPE_CHECKING:
    from tvm_fusionx.compress.prune.pruned_model import PrunedModel

SCRIPT, MODEL = ".py", ".onnx"


@click.command("prune")
@click.argument("source", metavar="TRAIN.py[:FUNCTION]|MODEL.onnx")
@click.option(
    "--config",
    required=True,
    type=click.Path(path_type=Path),
    help="What to prune and how: a file in YAML, TOML or JSON.",
)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="ONNX file.")
@click.option("--resume", is_flag=True, help="Go on with OUT.checkpoint.pt.")
@json_option
@debug_option
def command(source: str, config: Path, output: Path, resume: bool, json_path: Path | None) -> None:
    """Prune a model: its weights become zero in structures that kernels can leave out.

    TRAIN.py is your own script: its functions give the model, a step of training, and a score. Its
    state is in OUT.checkpoint.pt, so that --resume goes on where the command was stopped. An ONNX
    file is only cut, not trained: at high rates it loses all its accuracy.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.compress.prune.prune import beside
    from tvm_fusionx.output_file import check_writable

    if json_path is not None:
        check_writable(json_path, output)
    with Stages(f"pruning {Path(source).name}") as stage:
        if Path(source).suffix == MODEL:
            result = _cut(Path(source), config, output, stage)
        elif source.endswith(SCRIPT) or f"{SCRIPT}:" in source:
            result = _trained(source, config, output, resume, stage)
        else:
            raise InputError(
                f"{source!r}",
                expected="a script TRAIN.py, TRAIN.py:FUNCTION, or a file MODEL.onnx",
                found="another ending",
                next_step="docs/how-to/prune-a-model.md has examples of both.",
            )
    if json_path is not None:
        result.save_report(json_path)
    click.echo(result.text())
    click.echo(f"report: {beside(output, 'report.json')}")
    click.echo(f"fusionx compile {output}")


def _cut(model: Path, config: Path, output: Path, stage: Stages) -> PrunedModel:
    from tvm_fusionx.compress.prune.prune import prune

    return prune(model, config=config, output=output, on_stage=stage)


def _trained(source: str, config: Path, output: Path, resume: bool, stage: Stages) -> PrunedModel:
    from tvm_fusionx.cli.train_script import load_script
    from tvm_fusionx.compress.prune.prune import prune
    from tvm_fusionx.compress.prune.read_config import read_config
    from tvm_fusionx.output_file import check_writable

    check_writable(output)
    choices = read_config(config)
    stage("reading the script")
    script = load_script(source)
    return prune(
        script.model(),
        config=choices,
        train=script.train(choices.training.seed),
        evaluate=script.evaluate,
        example=script.example(),
        output=output,
        resume=resume,
        latency_of_rate=script.latency_of_rate,
        export=None if script.export is None else script.export(),
        on_stage=stage,
    )
