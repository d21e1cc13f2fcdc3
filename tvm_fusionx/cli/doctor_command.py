"""``fusionx doctor``."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tvm_fusionx.cli.device_options import DeviceChoice, device_options
from tvm_fusionx.cli.options import debug_option
from tvm_fusionx.cli.progress import Stages
from tvm_fusionx.devices.doctor import Finding, Verdict, examine, examine_device, is_fit
from tvm_fusionx.errors import EXIT_ENVIRONMENT, EXIT_OK

COLOURS = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red"}


@click.command("doctor")
@device_options
@debug_option
def command(device: DeviceChoice) -> int:
    """Check this machine and environment, and say what to do about what is wrong.

    With --device: everything that a run there needs, up to a kernel's answer.
    """
    findings = _of_device(device) if device.name is not None else examine()
    table = Table(show_header=False, box=None, pad_edge=False)
    for finding in findings:
        text = Text(finding.found)
        if finding.advice:
            text.append(f"\n→ {finding.advice}", style="italic")
        verdict = Text(finding.verdict.value, style=COLOURS[finding.verdict])
        table.add_row(verdict, Text(finding.subject), text)
    Console().print(table)
    return EXIT_OK if is_fit(findings) else EXIT_ENVIRONMENT


def _of_device(choice: DeviceChoice) -> list[Finding]:
    from tvm_fusionx._tvm.presence import require_relay

    require_relay()
    device = choice.find()
    assert device is not None
    with Stages(f"examining {device.name}") as stage:
        stage("step by step")
        return examine_device(device)
