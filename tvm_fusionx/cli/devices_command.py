"""``fusionx devices``."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import click

from tvm_fusionx.cli.device_options import rpc_options
from tvm_fusionx.cli.options import FiniteRange, debug_option
from tvm_fusionx.cli.progress import Stages

# As in the devices room, which needs TVM.
LINKERS = ("host", "gnu", "ndk", "lld")
ARCHITECTURES = ("host", "aarch64-linux", "aarch64-android")
DEFAULT_TRACKER_PORT = 9190
WATCH_SECONDS = 0.5


@click.group("devices")
@debug_option
def command() -> None:
    """List and describe devices, build the server that runs on them, emulate one."""


@command.command("list")
@debug_option
def list_devices() -> None:
    """Print every device that is known: presets, and your own."""
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.devices.description import own_devices, presets, read_device

    known = presets()
    own = {name: read_device(path) for name, path in own_devices().items()}
    for name, device in {**known, **own}.items():
        where = f"{device.key} at {device.tracker}" if device.tracker else "this machine"
        described = ", described by you" if name in own else ""
        click.echo(f"{name}: {where}, linked by {device.compiler or device.linker}{described}")
        click.echo(f"    {device.target}" + (f", host {device.host}" if device.host else ""))


@command.command("show")
@click.argument("name")
@debug_option
def show(name: str) -> None:
    """Print the description of the device NAME, or of a file, as JSON."""
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.devices import find_device

    click.echo(find_device(name).to_json(), nl=False)


@command.command("add")
@click.argument("name")
@click.option("--like", default="local", show_default=True, help="Device to start from.")
@click.option("--target", help="TVM target of what it computes with.")
@click.option("--target-host", "host", help="TVM target of the processor beside an accelerator.")
@rpc_options[0]
@rpc_options[1]
@click.option("--linker", type=click.Choice(LINKERS), help="What links for it.")
@click.option("--cross-compiler", "compiler", help="C++ compiler that links for it.")
@click.option(
    "--session-timeout",
    type=FiniteRange(min=0, min_open=True),
    help="Seconds that one session lasts at most.",
)
@click.option(
    "--load-library", "libraries", multiple=True, help="Plug-in for a server on this machine."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write; your folder of devices by default.",
)
@debug_option
def add(
    name: str,
    like: str,
    target: str | None,
    host: str | None,
    tracker: str | None,
    key: str | None,
    linker: str | None,
    compiler: str | None,
    session_timeout: float | None,
    libraries: tuple[str, ...],
    output: Path | None,
) -> None:
    """Describe the device NAME, from then on known by it."""
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.devices import find_device
    from tvm_fusionx.devices.description import SUFFIX, devices_folder
    from tvm_fusionx.output_file import make_folder

    if compiler and linker is None:
        linker = "gnu"
    device = find_device(
        like,
        name=name,
        target=target,
        host=host,
        tracker=tracker,
        key=key,
        linker=linker,
        compiler=compiler,
        session_timeout_seconds=session_timeout,
        libraries=libraries or None,
    )
    # A target that TVM does not know is found out now.
    resolved = device.tvm_target()
    if output is None:
        output = devices_folder() / f"{name}{SUFFIX}"
        make_folder(output.parent)
    device.save(output)
    click.echo(f"{output}: {name}, {resolved}")


@command.command("build-server")
@click.option(
    "--arch",
    type=click.Choice(ARCHITECTURES),
    default="aarch64-linux",
    show_default=True,
    help="What the device is; Android needs an NDK, which TVM_NDK_CC names.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("fusionx-server"),
    show_default=True,
    help="Folder to fill; an older server in it is replaced.",
)
@click.option(
    "--from-sources", is_flag=True, help="Compile TVM's runtime too; takes minutes, no network."
)
@click.option(
    "--opencl/--no-opencl",
    default=None,
    help="Whether the runtime has OpenCL, for which it is compiled; Android's has by default.",
)
@debug_option
def build_server_command(arch: str, output: Path, from_sources: bool, opencl: bool | None) -> None:
    """Build the RPC server for a device, with the runtime that it needs beside it."""
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.devices.build_server import build_server

    with Stages(f"building for {arch}") as stage:
        stage("compiling")
        program = build_server(arch, output, from_sources=from_sources, opencl=opencl)
    click.echo(f"built {program}")
    for path in sorted(output.iterdir()):
        click.echo(f"  {path.name}: {path.stat().st_size / (1 << 20):.1f} MiB")
    click.echo("Copy the folder to the device, and start there:")
    click.echo(f"  ./{program.name} --tracker=HOST:{DEFAULT_TRACKER_PORT} --key=KEY")


@command.command("emulate")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=DEFAULT_TRACKER_PORT,
    show_default=True,
    help="Port of the tracker.",
)
@click.option(
    "--count", type=click.IntRange(min=1), default=1, show_default=True, help="Boards to emulate."
)
@debug_option
def emulate_command(port: int, count: int) -> None:
    """Start a tracker and emulated Arm boards; Ctrl-C ends them."""
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    from tvm_fusionx.devices.description import DEFAULT_TRACKER
    from tvm_fusionx.devices.emulation import emulate

    # As Ctrl-C does, it must end the boards too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with emulate(count, port) as emulation:
        device = emulation.device
        click.echo(f"{count} x {device.name} at tracker {device.tracker}, key {device.key}")
        elsewhere = "" if device.tracker == DEFAULT_TRACKER else f" --rpc-tracker {device.tracker}"
        click.echo(f"Try: fusionx doctor --device {device.name}{elsewhere}")
        click.echo("Ctrl-C ends it.")
        while any(server.poll() is None for server in emulation.servers):
            time.sleep(WATCH_SECONDS)
        click.echo(f"Every board has ended: {emulation.log().strip()}", err=True)
