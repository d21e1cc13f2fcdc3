"""What ``fusionx opencl estimate`` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from tvm_fusionx.report.profile.gpu_estimate import CountedKernel, GpuEstimate

MILLION = 1_000_000
WIDTH = 80
LONGEST_NAME = WIDTH - 4
ROW = "{:>9} {:>8} {:>6} {:>9} {:>10} {:>8} {:>9}  {}"

# Kernels that are shown: those that take longest.
SHOWN = 12

NOTE = (
    "Least times from published figures, nothing was run: arithmetic on all units, or each buffer"
    " once across the memory bus. Caches, registers, launches and drivers come on top."
)


def print_estimates(found: Mapping[str, Sequence[GpuEstimate]]) -> None:
    """Print each variant's totals for each GPU, and the longest kernels of the quickest variant."""
    console = Console()
    gpus = [estimate.gpu for estimate in next(iter(found.values()))]
    totals = Table("between kernels", "launches", "MB moved", box=None)
    for gpu in gpus:
        totals.add_column(f"{gpu.name} ms", justify="right")
    for name, estimates in found.items():
        first = estimates[0]
        totals.add_row(
            name,
            str(first.launches),
            f"{first.moved_bytes / MILLION:.1f}",
            *(f"{each.least_ms:.2f}" for each in estimates),
        )
    console.print(totals)
    best = min(found, key=lambda name: found[name][0].least_ms)
    click.echo(f"\nLeast on {gpus[0].name}: {best}. Its longest kernels there:")
    _print_kernels(found[best][0])
    click.echo("\n" + textwrap.fill(NOTE, WIDTH))


def _print_kernels(estimate: GpuEstimate) -> None:
    """Print what takes longest, each kernel with its name below: lines fit into 80 columns."""
    gpu = estimate.gpu

    def time_of(kernel: CountedKernel) -> float:
        return kernel.launches * max(kernel.least_us(gpu).values())

    headings = ("least us", "for", "times", "items", "M mul-add", "loads/4", "registers")
    click.echo(ROW.format(*headings, "template"))
    for kernel in sorted(estimate.counted.kernels, key=time_of, reverse=True)[:SHOWN]:
        work, times = kernel.work, kernel.least_us(gpu)
        bound = max(times, key=lambda name: times[name])
        products = (work.multiply_adds + work.half_multiply_adds) / MILLION
        click.echo(
            ROW.format(
                f"{times[bound]:.1f}",
                bound,
                kernel.launches,
                work.items,
                f"{products:.1f}",
                f"{work.loads_a_multiply_add:.2f}",
                work.registers,
                kernel.template,
            )
        )
        name = kernel.name.removeprefix("tvmgen_default_").removesuffix("_kernel")
        click.echo(f"    {name[:LONGEST_NAME]}")
