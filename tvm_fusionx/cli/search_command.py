"""``fusionx search``."""

from __future__ import annotations

import math
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvm_fusionx.cli.options import Duration, database_option, debug_option
from tvm_fusionx.cli.progress import Stages

if TYPE_CHECKING:
    from tvm_fusionx.search.journal import Result
    from tvm_fusionx.search.search import Search

STRATEGY_NAMES = ("controller", "caps", "evolution", "tpe", "gp", "random")
MICROSECONDS = {"us": 1.0, "ms": 1e3, "s": 1e6}
_LATENCY = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>us|ms|s)")
CALIBRATING = 2
DEFAULT_TRIALS = 100


class LatencyType(click.ParamType):  # type: ignore[type-arg]
    """A time of one inference, such as ``5ms``; microseconds as a number."""

    name = "latency"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Return microseconds."""
        if isinstance(value, float):
            return value
        match = _LATENCY.fullmatch(str(value).strip())
        if match is None or float(match["number"]) == 0:
            self.fail(f"{value!r} is no time such as 5ms, 800us or 1s.", param, ctx)
        return float(match["number"]) * MICROSECONDS[match["unit"]]


@click.command("search")
@click.option(
    "--space", type=click.Path(path_type=Path), required=True, help="JSON file of the space."
)
@click.option(
    "--train",
    type=click.Path(path_type=Path),
    required=True,
    help="Python file with train(candidate, trial), which returns the accuracy.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of the journal, the trials and the results.",
)
@click.option(
    "--device",
    default="local",
    show_default=True,
    help="`local`, `count:CORE` for an Arm core counted under emulation, or a device's name.",
)
@click.option("--max-latency", type=LatencyType(), help="The latency that is asked for, as 5ms.")
@click.option(
    "--soft",
    is_flag=True,
    help="Weigh latency against accuracy as MnasNet does, in the place of a hard limit.",
)
@click.option(
    "--min-accuracy",
    type=click.FloatRange(0, 1, min_open=True),
    help="Search the fastest network that is so accurate, as 0.9.",
)
@click.option("--front", is_flag=True, help="Search the front of accuracy and latency.")
@click.option("--budget", type=Duration(), help="Time to spend in this run, such as 2h.")
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=DEFAULT_TRIALS,
    show_default=True,
    help="Networks to train at most.",
)
@click.option(
    "--strategy",
    type=click.Choice(STRATEGY_NAMES),
    default=STRATEGY_NAMES[0],
    show_default=True,
    help="Who proposes.",
)
@click.option("--halving", is_flag=True, help="Train the better third of a batch to the end only.")
@click.option("--median", is_flag=True, help="Stop what is worse than the median on its way.")
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Train, and time a device that it has, on this Ray cluster, such as host:6379.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="First ask the device whether it likes the activation, and take another where it does "
    "not.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of all that is drawn.")
@click.option("--resume", is_flag=True, help="Go on with the journal in the folder.")
@database_option
@debug_option
def command(
    space: Path,
    train: Path,
    output: Path,
    device: str,
    max_latency: float | None,
    soft: bool,
    min_accuracy: float | None,
    front: bool,
    budget: float | None,
    trials: int,
    strategy: str,
    halving: bool,
    median: bool,
    ray: str | None,
    replace: bool,
    seed: int,
    resume: bool,
    database: Path | None,
) -> None:
    """Search a network that is as accurate as can be and as fast as asked for.

    Every candidate is planned and built by this compiler for the device; those that are fast enough
    are trained. The folder has the Pareto front as a page at any time, and at the end the winner as
    ONNX, its recipe, its latency table, and why it won.
    """
    if soft and max_latency is None:
        raise click.UsageError("--soft needs --max-latency.")
    if soft + front + (min_accuracy is not None) > 1:
        raise click.UsageError("--soft, --min-accuracy and --front: give one of them.")
    if halving and median:
        raise click.UsageError("--halving and --median: give one of them.")
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    import random

    from tvm_fusionx.fusion.profile_database import ProfileDatabase
    from tvm_fusionx.measuring import database_path
    from tvm_fusionx.output_file import make_folder
    from tvm_fusionx.search.clocks import clock_of
    from tvm_fusionx.search.latency import LatencyEstimator
    from tvm_fusionx.search.replacements import settle_operations
    from tvm_fusionx.search.reward import SOFT_EXPONENT, Reward
    from tvm_fusionx.search.search import HALVING, MEDIAN, SearchSettings
    from tvm_fusionx.search.session import WHY, SearchTask, check_folder, run_search
    from tvm_fusionx.search.space_file import load_space
    from tvm_fusionx.search.training_file import check_training

    cluster: Any = None
    if ray is not None:
        from tvm_fusionx.devices.cluster import connect
        from tvm_fusionx.search.ray_executor import RayExecutor

        cluster = RayExecutor
        connect(ray)
    found = load_space(space)
    check_training(train)
    check_folder(output, resume=resume)
    make_folder(output)
    settings = SearchSettings(
        Reward(
            max_latency or math.inf,
            SOFT_EXPONENT if soft else 0.0,
            min_accuracy or 0.0,
            front,
        ),
        trials,
        budget or math.inf,
        batch=6 if halving else 4,
        rungs=(1 / 9, 1 / 3, 1.0) if halving or median else (1.0,),
        stop=MEDIAN if median else HALVING,
        seed=seed,
    )
    with Stages(f"searching {found.size()} networks") as stage, clock_of(device, ray) as clock:
        estimator = LatencyEstimator(clock, ProfileDatabase(database or database_path()))
        generator = random.Random(seed)
        notes: tuple[str, ...] = ()
        if replace:
            stage("asking for operations that the device dislikes")
            drawn = [found.sample(generator) for _ in range(CALIBRATING)]
            found, notes = settle_operations(found, estimator, drawn, output)
        task = SearchTask(found, train, output, strategy, settings, notes)
        stage("measuring launches, judging the first networks")

        def told(search: Search, result: Result) -> None:
            best = search.best
            so_far = "none yet" if best is None else f"{best.accuracy:.2%} {best.latency_us:.0f} us"
            left = search.seconds_left
            eta = "" if math.isinf(left) else f", {timedelta(seconds=round(left))} left"
            text = f"network {min(search.trained, trials)} of {trials}{eta}, best {so_far}"
            stage(text)
            if not sys.stderr.isatty():
                # The line of a terminal is not shown in a file, and a search takes hours.
                click.echo(text, err=True)

        report = run_search(
            task,
            estimator,
            resume=resume,
            executor=None if cluster is None else cluster(ray, train),
            calibrating=[found.sample(generator) for _ in range(CALIBRATING)],
            on_result=told,
        )
    click.echo((output / WHY).read_text(encoding="utf-8"), nl=False)
    for path in report.files:
        click.echo(str(path))
