"""``fusionx cache``."""

from __future__ import annotations

import click

from tvm_fusionx.cli.options import debug_option

MEBI = 2**20


@click.group("cache")
@debug_option
def command() -> None:
    """Show or empty the folder that keeps the machine code of kernels across builds."""


@command.command("info")
@debug_option
def info() -> None:
    """Print the folder, how many kernels it holds, and their size."""
    from tvm_fusionx.code_cache.folder import KernelFolder, default_folder, kernels_of

    folder = KernelFolder(default_folder())
    entries = folder.entries()
    held = sum(size for _, size, _ in entries)
    click.echo(str(folder.path))
    count, limit = len(kernels_of(entries)), folder.limit_bytes
    click.echo(f"{count} kernels, {held / MEBI:.1f} of {limit / MEBI:.0f} MiB")


@command.command("clear")
@debug_option
def clear() -> None:
    """Remove all kept kernels; builds compile theirs again."""
    from tvm_fusionx.code_cache.folder import KernelFolder, default_folder

    count, held = KernelFolder(default_folder()).clear()
    click.echo(f"removed {count} kernels, {held / MEBI:.1f} MiB")
