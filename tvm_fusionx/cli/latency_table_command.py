"""``fusionx latency-table``."""

from __future__ import annotations

from pathlib import Path

import click

from tvm_fusionx.cli.options import database_option, debug_option
from tvm_fusionx.cli.progress import Stages

MOST_CANDIDATES = 64
CALIBRATING = 3


@click.command("latency-table")
@click.argument("space", type=click.Path(path_type=Path))
@click.option(
    "--device",
    default="local",
    show_default=True,
    help="`local`, `count:CORE` for an Arm core counted under emulation, or a device's name or "
    "file; `fusionx devices list` has them.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The table: JSON, or a sheet where the name ends in .csv.",
)
@click.option(
    "--most",
    type=click.IntRange(min=1),
    default=MOST_CANDIDATES,
    show_default=True,
    help="Networks of the space that are planned at most, to meet its layers.",
)
@click.option(
    "--checks",
    type=click.IntRange(min=0),
    default=CALIBRATING,
    show_default=True,
    help="Networks that are measured as a whole to learn what a launch adds; as many more are "
    "predicted and measured, and the error is told.",
)
@click.option("--ray", metavar="ADDRESS", help="Time on this Ray cluster a device that it has.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of what is drawn.")
@database_option
@debug_option
def command(
    space: Path,
    device: str,
    output: Path,
    most: int,
    checks: int,
    ray: str | None,
    seed: int,
    database: Path | None,
) -> None:
    """Measure what the layers of a search space take on a device, and export the table.

    SPACE is a JSON file of a search space. Kernels that the profile database knows are not measured
    again.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    import random

    from tvm_fusionx.fusion.profile_database import ProfileDatabase
    from tvm_fusionx.measuring import database_path
    from tvm_fusionx.output_file import check_writable
    from tvm_fusionx.search.clocks import clock_of
    from tvm_fusionx.search.latency import LatencyEstimator, median_error
    from tvm_fusionx.search.latency_table import fill_table, save_table
    from tvm_fusionx.search.space_file import load_space

    check_writable(output)
    found = load_space(space)
    generator = random.Random(seed)
    with Stages(space.name) as stage, clock_of(device, ray) as clock:
        estimator = LatencyEstimator(clock, ProfileDatabase(database or database_path()))
        stage("measuring layers")
        count = fill_table(
            found,
            estimator,
            most,
            seed=seed,
            on_candidate=lambda done, _: stage(f"measuring layers: {done} networks"),
        )
        if checks:
            stage("measuring launches")
            estimator.calibrate(found.sample(generator) for _ in range(checks))
        stage("writing")
        save_table(estimator, found, output)
        compared = []
        for number in range(checks):
            stage(f"checking {number + 1} of {checks}")
            compared.append(estimator.check(found.sample(generator)))
    contexts = len(estimator.planner.contexts)
    click.echo(f"{found.size()} networks in the space, {count} planned: {contexts} layers between")
    click.echo(f"neighbours, {len(estimator.times())} kernels, {estimator.timed} of them timed now")
    if compared:
        click.echo(f"a launch adds {estimator.launch_us:+.3f} us; predictions of {checks} networks")
        click.echo(f"are off by {median_error(compared):.2%} in the median")
    click.echo(f"table: {output}")
