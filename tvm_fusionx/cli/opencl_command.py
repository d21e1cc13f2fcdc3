"""``fusionx opencl``."""

from __future__ import annotations

import click

from tvm_fusionx.cli.options import debug_option


@click.group("opencl")
@debug_option
def command() -> None:
    """Build, show or remove the OpenCL runtime that TVM's wheel lacks."""


@command.command("build")
@click.option("--again", is_flag=True, help="Build even where it was built before.")
@debug_option
def build(again: bool) -> None:
    """Compile TVM's OpenCL runtime into the cache folder, and try it."""
    from tvm_fusionx.devices.opencl_plugin import build_opencl

    path = build_opencl(again=again)
    click.echo(f"built {path}")
    _show_device()


@command.command("show")
@debug_option
def show() -> None:
    """Print the library's path, and the device it finds."""
    from tvm_fusionx.devices.opencl_plugin import opencl_library_path

    path = opencl_library_path()
    click.echo(str(path))
    _show_device()


@command.command("remove")
@debug_option
def remove() -> None:
    """Delete the built library."""
    from tvm_fusionx.devices.opencl_plugin import opencl_library_path, remove_opencl

    path = remove_opencl()
    click.echo(f"removed {path}" if path is not None else f"nothing at {opencl_library_path()}")


def _show_device() -> None:
    import tvm

    from tvm_fusionx.devices.opencl_plugin import load_opencl

    load_opencl()
    device = tvm.opencl(0)
    click.echo(
        f"device {device.device_name}: {device.max_threads_per_block} work-items a group, "
        f"{device.max_shared_memory_per_block // 1024} KiB local memory"
    )
