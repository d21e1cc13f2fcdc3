"""The options that several commands share, named as tvmc names them."""

from __future__ import annotations

import functools
import logging
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import click

Command = TypeVar("Command", bound=Callable[..., Any])

# As in the planner, which this module must not import: it loads before TVM is known to be there.
PLANNERS = ("greedy", "optimal")
# As in the passes, for the same reason.
PRECISIONS = ("float16", "bfloat16", "float16-sums")
DEFAULT_TARGET = "llvm -mcpu=native"

# One input: a name, which may itself contain colons, and its extents in brackets.
_ONE_SHAPE = re.compile(r"\s*,?\s*(?P<name>[^\s\[\],]+)\s*:\s*\[(?P<extents>[^\[\]]*)\]")

# Of an int32, which indices are counted in.
LARGEST_EXTENT = 2**31 - 1
MOST_DIGITS = len(str(LARGEST_EXTENT))

# The format of pictures.
SVG = ".svg"

SECONDS = {"s": 1, "m": 60, "h": 3600, "": 1}
_DURATION = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[smh]?)")


class Duration(click.ParamType):  # type: ignore[type-arg]
    """A time such as ``90s``, ``30m`` or ``2h``, in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        match = _DURATION.fullmatch(str(value).strip())
        if match is None or float(match["number"]) == 0:
            self.fail(f"{value!r}: write it like 90s, 30m or 2h.", param, ctx)
        return float(match["number"]) * SECONDS[match["unit"]]


@dataclass
class Settings:
    """What the options of the whole command line set.

    Attributes
    ----------
    debug
        Show tracebacks.
    verbosity
        How often ``-v`` was given.
    """

    debug: bool = False
    verbosity: int = 0


# The loggers of this package are below it.
LOGGER = "tvm_fusionx"

# What is logged without ``-v``, with it, and with two.
LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


def _set_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Settings).debug = True


def _set_verbosity(ctx: click.Context, _: click.Parameter, value: int) -> None:
    if value:
        settings = ctx.ensure_object(Settings)
        settings.verbosity += value
        level = LEVELS[min(settings.verbosity, len(LEVELS) - 1)]
        logging.getLogger(LOGGER).setLevel(level)


def debug_option(command: Command) -> Command:
    """Add ``--debug`` and ``--verbose``, before or after the command's name."""
    verbose = click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        is_eager=True,
        callback=_set_verbosity,
        help="Say more of what is done; -vv says most.",
    )
    debug = click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_set_debug,
        help="Show the traceback of an error.",
    )
    return verbose(debug(command))


# Between the extents of one axis where several programs may be made.
_CHOICE = re.compile(r"\d\s*\|\s*\d")


class InputShapes(click.ParamType):  # type: ignore[type-arg]
    """The value of ``--input-shapes``: ``x:[1,3,320,320] mask:[1,128]``."""

    name = "shapes"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, tuple[int, ...]]:
        """Return the extents by input name."""
        if isinstance(value, dict):
            return value
        shapes: dict[str, tuple[int, ...]] = {}
        position = 0
        text = str(value).rstrip(" ,")
        while position < len(text):
            match = _ONE_SHAPE.match(text, position)
            if match is None:
                self._refuse(value, f"cannot read {text[position:]!r}", param, ctx)
            position = match.end()
            if match["name"] in shapes:
                self._refuse(value, f"input {match['name']!r} is there twice", param, ctx)
            shapes[match["name"]] = self._extents(value, match["extents"], param, ctx)
        return shapes

    def _extents(
        self, value: Any, text: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        words = [word.strip() for word in text.split(",")] if text.strip() else []
        if not all(map(_is_extent, words)):
            reason = f"[{text}] is not a list of whole numbers up to {LARGEST_EXTENT}"
            if _CHOICE.search(text):
                reason = f"[{text}] has several sizes, which only `fusionx compile` takes"
            self._refuse(value, reason, param, ctx)
        return tuple(int(word) for word in words)

    def _refuse(
        self, value: Any, problem: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> NoReturn:
        self.fail(
            f'{value!r}: {problem}; write it like "x:[1,3,320,320] mask:[1,128]".', param, ctx
        )


def _is_extent(word: str) -> bool:
    # Python reads no number of thousands of digits.
    return word.isdecimal() and len(word) <= MOST_DIGITS and int(word) <= LARGEST_EXTENT


model_argument = click.argument("model", type=click.Path(path_type=Path))

target_option = click.option(
    "--target",
    default=DEFAULT_TARGET,
    show_default=True,
    help="TVM target; native means this machine's CPU.",
)


def _strassen(context: click.Context, parameter: click.Parameter, chosen: bool) -> dict[str, Any]:
    """Return what the order of passes is told: a pass before layouts are chosen, or nothing."""
    if not chosen:
        return {}
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.passes import MultiplyByStrassen

    return {"before": {"layout": MultiplyByStrassen()}}


strassen_option = click.option(
    "--strassen",
    is_flag=True,
    callback=_strassen,
    help="Compute large products with constant weights by seven products of quarters for eight: an "
    "eighth fewer multiply-adds, and some three times the bound of the error.",
)

input_shapes_option = click.option(
    "--input-shapes",
    "shape",
    type=InputShapes(),
    help='Shapes of inputs that are dynamic in the file, as "x:[1,3,320,320] mask:[1,128]".',
)

executor_option = click.option(
    "--executor",
    type=click.Choice(["graph", "vm"]),
    help="What runs the model: TVM's graph executor, or its virtual machine, which runs what the "
    "data decides (NonMaxSuppression, loops, branches). By default what the model needs.",
)
tuning_records_option = click.option(
    "--tuning-records",
    "records",
    type=click.Path(path_type=Path),
    help="File or folder of tuning records.",
)

precision_option = click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    help="Keep weights, and what kernels pass to each other, in 16 bits; compute in float32. "
    "float16-sums multiplies and sums up short chains in halves, on an Arm core that adds them.",
)

inputs_option = click.option(
    "--inputs",
    type=click.Path(path_type=Path),
    help="Arrays by input name (.npz); seeded random ones by default.",
)


def picture_option(what: str) -> Any:
    """Return the option that names a file for a drawing of `what`."""
    return click.option("--picture", type=_Picture(), help=f"Draw {what} into this file ({SVG}).")


class _Picture(click.Path):
    """A path that tells the format."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        if path.suffix != SVG:
            self.fail(f"{path}: expected a name that ends in {SVG}.", param, ctx)
        return path


class FiniteRange(click.FloatRange):
    """A range of numbers, which ``nan`` and ``inf`` are none of."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


# More threads than this take longer to begin than any model to run.
MOST_THREADS = max(64, os.cpu_count() or 1)

threads_option = click.option(
    "--threads",
    type=click.IntRange(min=1, max=MOST_THREADS),
    help="Threads to use; the cores that the process may use by default.",
)

json_option = click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path),
    help="Also write the result as JSON to this file.",
)

_PLANNER_OPTIONS = (
    click.option(
        "--planner",
        type=click.Choice(PLANNERS),
        default=PLANNERS[0],
        show_default=True,
        help="How blocks are chosen; optimal asks a solver for the fastest cover.",
    ),
    click.option(
        "--measure",
        is_flag=True,
        help="Measure on this machine where fusing and not fusing cost nearly the same.",
    ),
    click.option(
        "--allow",
        multiple=True,
        help="Fuse only this: name of an operator, a node or a block; may be given again.",
    ),
    click.option(
        "--deny",
        multiple=True,
        help="Fuse this with nothing: name of an operator, a node or a block; may be given again.",
    ),
)

database_option = click.option(
    "--profile-db",
    "database",
    type=click.Path(path_type=Path),
    help="File of what was measured; the user's own by default.",
)


def guard_options(command: Command) -> Command:
    """Add what the guard on accuracy asks: how the model is judged, and what it may lose."""
    validation = click.option(
        "--validation",
        metavar="FILE.py:FUNCTION",
        help="What the model must keep: FUNCTION(run) returns a number, larger for better.",
    )
    max_drop = click.option(
        "--max-drop",
        type=FiniteRange(min=0),
        default=0.01,
        show_default=True,
        help="What the model may lose, in the function's unit; "
        "without one, how far outputs may move.",
    )
    return validation(max_drop(command))


def planner_options(command: Command) -> Command:
    """Add the options that steer the planner; the command takes them as `choices`."""

    @functools.wraps(command)
    def gathered(*arguments: Any, measure: bool, database: Path | None, **named: Any) -> Any:
        choices = {name: named.pop(name) for name in ("planner", "allow", "deny")}
        choices["measure"] = database if measure and database is not None else measure
        return command(*arguments, choices=choices, **named)

    for option in (*_PLANNER_OPTIONS, database_option):
        gathered = option(gathered)
    return cast(Command, gathered)
