"""What ``fusionx count`` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from tvm_fusionx.counting.comparison import Ratio
    from tvm_fusionx.counting.count import Count
    from tvm_fusionx.counting.tally import Tally

MILLION = 1e6
# Of long names of kernels the end tells more.
NAME_WIDTH = 44
SHORT_CORES = {
    "neoverse-n1": "N1 (A76)",
    "neoverse-n2": "N2",
    "cortex-a55": "A55",
    "neoverse-v1": "V1",
}


def print_counts(
    counts: Sequence[Count],
    shown: int,
    ratios: Sequence[Ratio] = (),
    errors: Mapping[str, float | None] | None = None,
) -> None:
    """Print the totals of each side, the kernels and loops of the first, and the limits.

    Parameters
    ----------
    shown
        Kernels and loops to show.
    ratios
        Of the first to the best of the others.
    errors
        Of the others' outputs against the first's, by side.
    """
    from tvm_fusionx.counting.count import LIMITS

    console = Console()
    ours = counts[0]
    console.print(
        f"{ours.model}, one inference for {ours.core} on QEMU's {ours.emulated}; millions,"
        " and megabytes",
        highlight=False,
        markup=False,
    )
    console.print(_totals(counts))
    for ratio in ratios:
        click.echo(f"ours / best other: {ratio.value:.3f} {ratio.measure} ({ratio.best})")
    for side, error in (errors or {}).items():
        told = "of another size than ours" if error is None else f"{error:.1e} from ours"
        click.echo(f"{side}: outputs {told}")
    if shown:
        console.print(_kernels(ours, shown))
        console.print(_loops(ours, shown))
    click.echo(textwrap.fill(LIMITS, console.width))


def print_assembly(count: Count, loops: int) -> None:
    """Print the hottest loops, disassembled."""
    for number, loop in enumerate(count.loops[:loops], 1):
        click.echo(f"\nloop {number}, {loop.kernel}: {loop.turns} turns")
        for line in loop.code:
            click.echo(f"  {line}")


def _table(*names: str) -> Table:
    table = Table(*names, box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _totals(counts: Sequence[Count]) -> Table:
    cores = list(counts[0].total.cycles)
    table = _table(
        *("side", "instr.", "mul-add", "loads", "stores", "stack", "moves", "vector", "branch"),
        *("other", "MB in", "MB out", "L1 MB", "L2 MB", *(SHORT_CORES.get(c, c) for c in cores)),
    )
    for count in counts:
        total = count.total
        table.add_row(
            count.side,
            *(_millions(each) for each in _instructions(total)),
            *(_millions(each) for each in (total.loaded_bytes, total.stored_bytes)),
            *(_millions(each) if each else "-" for each in (total.l1_bytes, total.l2_bytes)),
            *(_millions(total.cycles[core]) for core in cores),
        )
    return table


def _instructions(tally: Tally) -> tuple[int, ...]:
    kinds = (tally.loads, tally.stores, tally.stack, tally.moves, tally.vector)
    return (tally.instructions, tally.multiply_adds, *kinds, tally.branches, tally.other)


def _kernels(count: Count, shown: int) -> Table:
    cores = list(count.total.cycles)
    table = _table(
        *("kernel", "template", "share", "instr.", "mul-add", "each", "stack", "moves"),
        *("L1 MB", "L2 MB", *(SHORT_CORES.get(core, core) for core in cores)),
    )
    table.columns[1].justify = "left"
    whole = count.total.instructions
    for kernel in count.kernels[:shown]:
        tally = kernel.tally
        table.add_row(
            kernel.name[-NAME_WIDTH:],
            kernel.template or "-",
            f"{tally.instructions / whole:.1%}",
            *(_millions(each) for each in (tally.instructions, tally.multiply_adds)),
            _each(tally.instructions, tally.multiply_adds),
            *(_millions(each) for each in (tally.stack, tally.moves)),
            *(_millions(each) if each else "-" for each in (tally.l1_bytes, tally.l2_bytes)),
            *(_millions(tally.cycles[core]) for core in cores),
        )
    rest = count.kernels[shown:]
    if rest:
        ran = sum(kernel.tally.instructions for kernel in rest)
        table.add_row(f"{len(rest)} more", "", f"{ran / whole:.1%}", _millions(ran))
    return table


def _loops(count: Count, shown: int) -> Table:
    cores = list(count.total.cycles)
    table = _table(
        *("hottest loops", "share", "turns", "length", "mul-add", "each", "loads", "stores"),
        *("stack", "moves", *(f"{SHORT_CORES.get(core, core)}/cyc" for core in cores)),
    )
    for loop in count.loops[:shown]:
        table.add_row(
            loop.kernel[-NAME_WIDTH:],
            f"{loop.instructions / count.total.instructions:.1%}",
            str(loop.turns),
            str(loop.length),
            str(loop.multiply_adds),
            _each(loop.length, loop.multiply_adds),
            *(str(each) for each in (loop.loads, loop.stores, loop.stack, loop.moves)),
            *(
                f"{loop.multiply_adds / loop.cycles[core]:.2f}" if loop.cycles[core] else "-"
                for core in cores
            ),
        )
    return table


def _each(instructions: int, multiply_adds: int) -> str:
    """Return the instructions for each multiply-add."""
    return f"{instructions / multiply_adds:.2f}" if multiply_adds else "-"


def _millions(number: float) -> str:
    return f"{number / MILLION:.4g}" if number >= MILLION / 1000 else f"{number / MILLION:.1g}"
