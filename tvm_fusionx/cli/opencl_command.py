"""``fusionx opencl``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from tvm_fusionx.cli.constants import ModelCommand, bind, constants_option
from tvm_fusionx.cli.options import (
    debug_option,
    input_shapes_option,
    json_option,
    model_argument,
)
from tvm_fusionx.cli.progress import Stages


@click.group("opencl")
@debug_option
def command() -> None:
    """Build, show or remove the OpenCL runtime that TVM's wheel lacks; count what kernels do."""


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


@command.command("estimate", cls=ModelCommand)
@model_argument
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    default=("adreno-650", "adreno-740"),
    show_default=True,
    help="Name of a GPU whose figures are published; may be given again.",
)
@click.option(
    "--target",
    default="opencl -device=adreno",
    show_default=True,
    help="OpenCL target to build for.",
)
@input_shapes_option
@constants_option
@json_option
@debug_option
def estimate(
    model: Path,
    gpus: tuple[str, ...],
    target: str,
    shape: dict[str, tuple[int, ...]] | None,
    constants: dict[str, Any],
    json_path: Path | None,
) -> None:
    """Count what the OpenCL kernels of the ONNX file MODEL do, in buffers, images and halves.

    The times are least times from published figures, not measurements: nothing is run.
    """
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.cli.gpu_tables import print_estimates
    from tvm_fusionx.frontend import from_onnx
    from tvm_fusionx.output_file import check_writable, new_file
    from tvm_fusionx.processors.gpu_rates import gpu_named
    from tvm_fusionx.report.profile.gpu_estimate import count_on_gpu, variants

    if json_path is not None:
        check_writable(json_path, model)
    rates = [gpu_named(name) for name in gpus]
    with Stages(f"counting {model.name}") as stage:
        stage("importing")
        mod, params = from_onnx(bind(model, constants), shape=shape)
        counted = {}
        for name, choices in variants().items():
            stage(f"building with {name}")
            counted[name] = count_on_gpu(mod, target, params, **choices)
    found = {name: [kernels.on(gpu) for gpu in rates] for name, kernels in counted.items()}
    if json_path is not None:
        told = {name: [each.to_json() for each in of] for name, of in found.items()}
        with new_file(json_path) as scratch:
            scratch.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    print_estimates(found)


def _show_device() -> None:
    import tvm

    from tvm_fusionx.devices.opencl_plugin import load_opencl

    load_opencl()
    device = tvm.opencl(0)
    click.echo(
        f"device {device.device_name}: {device.max_threads_per_block} work-items a group, "
        f"{device.max_shared_memory_per_block // 1024} KiB local memory"
    )
