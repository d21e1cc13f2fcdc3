"""``fusionx calibrate``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from tvm_fusionx.cli.options import debug_option, json_option, target_option, threads_option
from tvm_fusionx.cli.progress import Stages


@click.command("calibrate")
@target_option
@threads_option
@json_option
@debug_option
def command(target: str, threads: int | None, json_path: Path | None) -> None:
    """Measure what this machine's kernels cost, for plans that may measure.

    Seven small programs, a few seconds. The rates are kept in the user's data folder and used
    wherever measuring is asked for; plans that do not measure use the shipped rates.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.measuring import calibrate, costs_path, setting_of
    from tvm_fusionx.output_file import check_writable, make_folder, new_file
    from tvm_fusionx.threads import threads as use_threads

    if json_path is not None:
        check_writable(json_path)
    use_threads(threads)
    setting = setting_of(target)
    with Stages("calibrating") as stage:
        stage("measuring")
        costs = calibrate(target)
    path = costs_path(setting)
    make_folder(path.parent)
    costs.save(path)
    if json_path is not None:
        with new_file(json_path) as scratch:
            scratch.write_text(json.dumps(asdict(costs), indent=1) + "\n", encoding="utf-8")
    click.echo(f"{setting.device}, {setting.threads} threads, {setting.target}")
    for name, value in asdict(costs).items():
        click.echo(f"  {name:24}{value:14,.1f}")
    click.echo(f"Kept in {path}")
