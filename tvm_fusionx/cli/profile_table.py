"""What ``fusionx run --profile`` prints: lines that fit into 80 columns, in a pipe too."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from tvm_fusionx.report.profile.profile import KernelTime, ProfileReport

# Kernels that are shown; the rest is summed up in one.
SHOWN_KERNELS = 20

# Slow ones among them.
SHOWN_SLOW = 10

# Names of the model's nodes that are shown of one kernel.
SHOWN_NODES = 6

# `KernelTime.is_tuned` in words.
_TUNED = {True: "yes", False: "no", None: "-"}

ROW = "{:>9} {:>6} {:>8} {:>5} {:>6}  {:5}  {}"
INDENT = " " * 4


def print_profile(report: ProfileReport) -> None:
    """Print each kernel's time with the names of its nodes below, then each template's."""
    from tvm_fusionx.report.profile.profile import format_seconds

    console = Console()
    click.echo(ROW.format("time", "share", "GFLOP/s", "peak", "GB/s", "tuned", "template"))
    slowest = sorted(report.kernels, key=lambda kernel: -kernel.seconds)
    for kernel in slowest[:SHOWN_KERNELS]:
        click.echo(_row(kernel))
        click.echo(_names(kernel, console.width))
    rest = slowest[SHOWN_KERNELS:]
    if rest:
        seconds = sum(kernel.seconds for kernel in rest)
        share = sum(kernel.share for kernel in rest)
        more = ROW.format(format_seconds(seconds), f"{share:.1%}", "", "", "", "", "")
        click.echo(f"{more.rstrip()}  {len(rest)} more")
    _print_slow(report, console.width)
    templates = Table("template", "kernels", "time", "share", box=None)
    for column in templates.columns[1:]:
        column.justify = "right"
    for row in report.by_template():
        templates.add_row(
            row.template or "-", str(row.kernels), format_seconds(row.seconds), f"{row.share:.1%}"
        )
    console.print(templates)
    if report.peak is not None:
        click.echo(f"Peak: {report.peak.gflops_per_second:.0f} GFLOP/s, measured.")
    told = (
        f"Sum of {len(report.kernels)} kernels: {format_seconds(report.sum_seconds)}; end to end: "
        f"{format_seconds(report.end_to_end_seconds)}, {report.gap_text()}."
    )
    click.echo(textwrap.fill(told, console.width))


def _print_slow(report: ProfileReport, width: int) -> None:
    """Print the kernels that are far from what the machine could do."""
    from tvm_fusionx.report.profile.limits import SLOW, slow_kernels
    from tvm_fusionx.report.profile.profile import format_seconds

    found = slow_kernels(report)
    if not found:
        return
    lost = format_seconds(sum(slow.lost_seconds for slow in found))
    click.echo(f"Under {SLOW:.0%} of what this machine could do, {lost} lost in all:")
    for slow in found[:SHOWN_SLOW]:
        told = f"{format_seconds(slow.lost_seconds):>9} at {slow.part_of_limit:.0%}: "
        click.echo(_wrapped(told + slow.kernel.name, width))
    if len(found) > SHOWN_SLOW:
        click.echo(f"{len(found) - SHOWN_SLOW:>9} more")


def _row(kernel: KernelTime) -> str:
    from tvm_fusionx.report.profile.profile import format_seconds

    speed = kernel.gflops_per_second
    return ROW.format(
        format_seconds(kernel.seconds),
        f"{kernel.share:.1%}",
        f"{speed:.3g}" if speed is not None else "-",
        f"{kernel.part_of_peak:.0%}" if kernel.part_of_peak is not None else "-",
        f"{kernel.gbytes_per_second:.3g}",
        _TUNED[kernel.is_tuned],
        kernel.template or "-",
    )


def _names(kernel: KernelTime, width: int) -> str:
    """Return the block's name, which ``--deny`` and ``tune --only`` take, and its nodes."""
    shown = ", ".join(kernel.operators[:SHOWN_NODES])
    more = len(kernel.operators) - SHOWN_NODES
    nodes = f": {shown}" if shown else ""
    named = f"{kernel.name}{nodes}{f' and {more} more' if more > 0 else ''}"
    return _wrapped(INDENT + named, width)


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(
        text, width, subsequent_indent=INDENT * 2, break_on_hyphens=False, drop_whitespace=True
    )
