"""``fusionx tune``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvm_fusionx.cli.constants import ModelCommand, as_words, bind, constants_option, without_bound
from tvm_fusionx.cli.device_options import DeviceChoice, device_options
from tvm_fusionx.cli.options import (
    Duration,
    debug_option,
    input_shapes_option,
    inputs_option,
    json_option,
    model_argument,
    threads_option,
)

if TYPE_CHECKING:
    from tvm_fusionx.tuning import TuningReport

# As in the tuning room, which needs TVM.
TUNERS = ("metaschedule", "autotvm")
ALGORITHMS = ("xgb", "ga", "random", "grid")
SPACES = ("fusionx", "tvm", "both")

SHOWN_BLOCKS = 20


@click.command("tune", cls=ModelCommand)
@model_argument
@device_options
@click.option("--target", help="TVM target in place of the device's.")
@click.option("--tuner", type=click.Choice(TUNERS), default=TUNERS[0], show_default=True)
@click.option(
    "--search",
    "algorithm",
    type=click.Choice(ALGORITHMS),
    default=ALGORITHMS[0],
    show_default=True,
    help="How AutoTVM searches.",
)
@click.option(
    "--space",
    type=click.Choice(SPACES),
    default=SPACES[0],
    show_default=True,
    help="What is searched: our templates' knobs, TVM's own schedules, or both in turns.",
)
@click.option(
    "--trials", type=click.IntRange(min=1), help="Candidates to measure; 200 without a budget."
)
@click.option("--budget", type=Duration(), help="Time to spend, such as 30m.")
@click.option("--only", multiple=True, help="Tune this block: name, part of it, or hash; repeat.")
@click.option(
    "--tuning-records",
    "records",
    type=click.Path(path_type=Path),
    help="Folder for records and journal; the user's own by default.",
)
@click.option("--resume", is_flag=True, help="Go on with the session that did not end.")
@click.option("--dry-run", is_flag=True, help="Only show where the budget would go.")
@click.option(
    "--parallel",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Devices of the key to use at a time.",
)
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Run candidates on this Ray cluster, whose workers have the device, such as host:6379.",
)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--no-transfer", is_flag=True, help="Learn nothing from older trials.")
@input_shapes_option
@constants_option
@inputs_option
@threads_option
@json_option
@debug_option
def command(
    model: Path,
    device: DeviceChoice,
    target: str | None,
    tuner: str,
    algorithm: str,
    space: str,
    trials: int | None,
    budget: float | None,
    only: tuple[str, ...],
    records: Path | None,
    resume: bool,
    dry_run: bool,
    parallel: int,
    ray: str | None,
    seed: int,
    no_transfer: bool,
    shape: dict[str, tuple[int, ...]] | None,
    constants: dict[str, Any],
    inputs: Path | None,
    threads: int | None,
    json_path: Path | None,
) -> None:
    """Tune the blocks of the ONNX file MODEL on a device, and keep what makes it faster.

    Every trial is in a journal before it runs. Whatever stops the command, --resume goes on.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from dataclasses import replace

    from tvm_fusionx.devices import find_device
    from tvm_fusionx.frontend import from_onnx
    from tvm_fusionx.inputs import read_inputs
    from tvm_fusionx.output_file import new_file
    from tvm_fusionx.threads import threads as use_threads
    from tvm_fusionx.tuning import tune
    from tvm_fusionx.tuning.progress import TuningProgress
    from tvm_fusionx.tuning.settings import DEFAULT_TRIALS

    chosen = device.find() or find_device("local")
    if target is not None:
        chosen = replace(chosen, target=target)
    if threads is not None:
        chosen = chosen.with_cores(threads)
    use_threads(threads)
    with TuningProgress(
        f"tuning {model.name}", trials or (None if budget else DEFAULT_TRIALS), budget
    ) as bar:
        bar("importing", None)
        mod, params = from_onnx(bind(model, constants), shape=shape)
        report = tune(
            mod,
            chosen,
            params,
            records=records,
            resume=resume,
            only=only,
            dry_run=dry_run,
            parallel=parallel,
            cluster=ray,
            inputs=None if inputs is None else without_bound(read_inputs(inputs), constants),
            model=model.stem,
            watch=bar,
            tuner=tuner,
            algorithm=algorithm,
            space=space,
            trials=trials,
            budget_seconds=budget,
            seed=seed,
            transfer=not no_transfer,
        )
    if json_path is not None:
        with new_file(json_path) as scratch:
            text = json.dumps(report.to_json(), indent=1, allow_nan=False)
            scratch.write_text(text + "\n", encoding="utf-8")
    click.echo(report.text(SHOWN_BLOCKS))
    if dry_run:
        click.echo(_plan(report, trials, budget))
    elif report.is_accepted and report.records is not None:
        click.echo(
            f"fusionx compile {model} --tuning-records {report.records.parent}{as_words(constants)}"
        )


def _plan(report: TuningReport, trials: int | None, budget: float | None) -> str:
    """Return what each block may gain, and what the whole costs."""
    from tvm_fusionx.tuning.settings import DEFAULT_TRIALS

    gains = report.expected_gains()
    lines = ["expected gain of the model, block by block:"]
    lines += [
        f"  {gain:>5.1%}  {result.task.names[0]} ({len(result.task.space)} choices)"
        for result, gain in gains
        if gain > 0
    ]
    cost = f"{budget:.0f} s" if budget else f"{trials or DEFAULT_TRIALS} trials"
    lines.append(f"all together {sum(gain for _, gain in gains):.0%} at most, for {cost}")
    return "\n".join(lines)
