"""``fusionx pool``."""

from __future__ import annotations

import click

from tvm_fusionx.cli.options import debug_option


@click.group("pool")
@debug_option
def command() -> None:
    """Build, show or remove the thread pool that kernels run on in the place of TVM's."""


@command.command("build")
@debug_option
def build() -> None:
    """Compile the pool into the cache folder; the first kernel would do it too."""
    from tvm_fusionx.runtime.pool_library import build_pool

    click.echo(f"built {build_pool()}")


@command.command("show")
@debug_option
def show() -> None:
    """Print the library that kernels run on, and its threads."""
    from tvm_fusionx.runtime.pool_library import pool_library
    from tvm_fusionx.threads import OURS, threads

    click.echo(str(pool_library(build=False)))
    click.echo(f"{threads(pool=OURS)} threads")


@command.command("remove")
@debug_option
def remove() -> None:
    """Delete the library that was built here; one that was installed with the package stays."""
    from tvm_fusionx.runtime.pool_library import built_path, remove_pool

    path = remove_pool()
    click.echo(f"removed {path}" if path is not None else f"nothing at {built_path()}")
