"""``fusionx profile-db``."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from tvm_fusionx.cli.options import FiniteRange, database_option, debug_option, json_option

# A block of many operators has a long name; a line of a terminal is about so long.
WIDTH = 70


@click.group("profile-db")
@debug_option
def command() -> None:
    """Show, merge or prune what blocks took when they were measured."""


@command.command("show")
@database_option
@json_option
@debug_option
def show(database: Path | None, json_path: Path | None) -> None:
    """Print every answer: the block, its setting, and its time or why it has none."""
    from tvm_fusionx.output_file import new_file

    found = _open(database)
    profiles = found.profiles() if found.path.is_file() else []
    if json_path is not None:
        rows = [
            asdict(profile) | {"microseconds": _finite(profile.microseconds)}
            for profile in profiles
        ]
        with new_file(json_path) as scratch:
            scratch.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    setting = None
    for profile in profiles:
        if profile.setting != setting:
            setting = profile.setting
            click.echo(
                f"{setting.device}, {setting.threads} threads, {setting.target}, {setting.versions}"
            )
        text = profile.signature
        text = text if len(text) <= WIDTH else "..." + text[3 - WIDTH :]
        took = f"{profile.microseconds:.1f} us" if not profile.failure else profile.failure
        click.echo(f"  {profile.key[:8]}  {text:{WIDTH}}  {took}")
    click.echo(f"{len(profiles)} answers in {found.path}")


@command.command("merge")
@click.argument("others", type=click.Path(path_type=Path), nargs=-1, required=True)
@database_option
@debug_option
def merge(others: tuple[Path, ...], database: Path | None) -> None:
    """Add what the databases OTHERS know; of two answers the newer stays."""
    from tvm_fusionx.fusion.profile_database import ProfileDatabase

    into = _open(database)
    for other in others:
        click.echo(f"{other}: {into.merge(ProfileDatabase(other))} new or newer answers")


@command.command("prune")
@click.option("--days", type=FiniteRange(min=0), help="Drop answers older than this.")
@click.option("--other-versions", is_flag=True, help="Drop answers of other versions than these.")
@database_option
@debug_option
def prune(days: float | None, other_versions: bool, database: Path | None) -> None:
    """Drop old answers, or those of other versions."""
    from tvm_fusionx.measuring.places import versions

    if days is None and not other_versions:
        raise click.UsageError("Give --days, --other-versions or both: nothing is pruned without.")
    found = _open(database)
    keep = versions() if other_versions else None
    dropped = found.prune(older_than_days=days, keep_versions=keep)
    click.echo(f"{found.path}: {dropped} answers dropped, {len(found.profiles())} left")


def _open(database: Path | None) -> Any:
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.fusion.profile_database import ProfileDatabase
    from tvm_fusionx.measuring import database_path

    return ProfileDatabase(database or database_path())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
