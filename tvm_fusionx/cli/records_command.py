"""``fusionx records``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click

from tvm_fusionx.cli.options import DEFAULT_TARGET, FiniteRange, debug_option, json_option

# As in the records room, which needs TVM.
FORMATS = ("autotvm", "metaschedule")
NAME_WIDTH = 44

_into = click.option(
    "--tuning-records",
    "records",
    type=click.Path(path_type=Path),
    required=True,
    help="File or folder of tuning records to change.",
)
_format = click.option(
    "--format", "form", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True
)


@click.group("records")
@debug_option
def command() -> None:
    """Show, merge, compare, prune, export or import tuning records."""


@command.command("show")
@click.argument("records", type=click.Path(path_type=Path))
@json_option
@debug_option
def show(records: Path, json_path: Path | None) -> None:
    """Print every record under RECORDS: the block, its choice, its time and gain."""
    module = _room()
    found = module.read_records(records)
    if json_path is not None:
        from tvm_fusionx.output_file import new_file

        with new_file(json_path) as scratch:
            rows = [json.loads(record.line()) for record in found]
            scratch.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    setting = None
    for record in sorted(found, key=lambda each: (each.target, each.device, -_finite(each))):
        if (record.target, record.device) != setting:
            setting = record.target, record.device
            click.echo(f"{record.device or 'device unknown'}, {record.target}")
        click.echo(f"  {_line(record)}")
    tuned = sum(record.is_tuned for record in found)
    click.echo(f"{len(found)} records, {tuned} of them tuned, in {records}")


@command.command("merge")
@click.argument("others", type=click.Path(path_type=Path), nargs=-1, required=True)
@_into
@debug_option
def merge(others: tuple[Path, ...], records: Path) -> None:
    """Add the records of OTHERS; of two for one block, target and device the newer stays."""
    module = _room()
    groups = [module.read_records(other) for other in others]
    file = module.own_file(records)
    before = module.read_records(file) if file.is_file() else []
    merged = module.merge_records([before, *groups])
    module.write_records(records, merged)
    click.echo(f"{file}: {len(merged)} records, {len(before)} before")


@command.command("diff")
@click.argument("left", type=click.Path(path_type=Path))
@click.argument("right", type=click.Path(path_type=Path))
@debug_option
def diff(left: Path, right: Path) -> None:
    """Print the blocks for which LEFT and RIGHT choose differently, or that one has alone."""
    module = _room()
    pairs = module.differing_records(module.read_records(left), module.read_records(right))
    for ours, theirs in pairs:
        for sign, record in (("-", ours), ("+", theirs)):
            if record is not None:
                click.echo(f"{sign} {_line(record)}")
    click.echo(f"{len(pairs)} blocks differ")


@command.command("prune")
@_into
@click.option("--days", type=FiniteRange(min=0), help="Drop records older than this.")
@click.option("--other-versions", is_flag=True, help="Drop records of other versions than these.")
@click.option("--target", help="Drop records of other targets than this.")
@debug_option
def prune(records: Path, days: float | None, other_versions: bool, target: str | None) -> None:
    """Drop old records, those of other versions, or of other targets."""
    if days is None and not other_versions and target is None:
        raise click.UsageError("Give --days, --other-versions or --target: nothing is pruned else.")
    module = _room()
    from tvm_fusionx.measuring.places import versions
    from tvm_fusionx.schedules import resolve_target, target_key

    before = module.read_records(module.own_file(records))
    kept = module.prune_records(
        before,
        older_than_days=days,
        keep_versions=versions() if other_versions else None,
        keep_target=target_key(resolve_target(target)) if target is not None else None,
    )
    file = module.write_records(records, kept)
    click.echo(f"{file}: {len(before) - len(kept)} records dropped, {len(kept)} left")


@command.command("export")
@click.argument("records", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--target", default=DEFAULT_TARGET, show_default=True)
@_format
@debug_option
def export(records: Path, output: Path, target: str, form: str) -> None:
    """Write RECORDS as a log of TVM's own: a file for AutoTVM, a folder for MetaSchedule.

    Only those that such a log can carry: of the target, with knobs and a time.
    """
    module = _room()
    from tvm_fusionx.records.tvm_logs import export_records
    from tvm_fusionx.schedules import resolve_target

    found = module.read_records(records)
    count = export_records(found, output, resolve_target(target), form)
    click.echo(f"{output}: {count} of {len(found)} records as {form} writes them")


@command.command("import")
@click.argument("log", type=click.Path(path_type=Path))
@_into
@_format
@debug_option
def import_(log: Path, records: Path, form: str) -> None:
    """Add what a LOG of TVM's own tuner says of our templates."""
    module = _room()
    from tvm_fusionx.records.tvm_logs import import_records

    found = import_records(log, form)
    file = module.add_records(records, found)
    click.echo(f"{file}: {len(found)} records from {log}")


def _room() -> Any:
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx import records

    return records


def _finite(record: Any) -> float:
    return record.seconds if math.isfinite(record.seconds) else 0.0


def _line(record: Any) -> str:
    name = record.name or record.hash
    name = name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 3] + "..."
    took = f"{record.seconds * 1e6:.1f} us" if math.isfinite(record.seconds) else "not timed"
    knobs = " ".join(f"{knob}={value}" for knob, value in sorted(record.knobs.items()))
    return f"{name:{NAME_WIDTH}}  {record.template:12} {took:>12} {record.gain:5.2f}x  {knobs}"
