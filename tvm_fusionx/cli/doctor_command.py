"""``fusionx doctor``."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tvm_fusionx.cli.options import debug_option
from tvm_fusionx.doctor import Verdict, examine, is_fit
from tvm_fusionx.errors import EXIT_ENVIRONMENT, EXIT_OK

COLOURS = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red"}


@click.command("doctor")
@debug_option
def command() -> int:
    """Check this machine and environment, and say what to do about what is wrong."""
    findings = examine()
    table = Table(show_header=False, box=None, pad_edge=False)
    for finding in findings:
        text = Text(finding.found)
        if finding.advice:
            text.append(f"\n→ {finding.advice}", style="italic")
        verdict = Text(finding.verdict.value, style=COLOURS[finding.verdict])
        table.add_row(verdict, Text(finding.subject), text)
    Console().print(table)
    return EXIT_OK if is_fit(findings) else EXIT_ENVIRONMENT
