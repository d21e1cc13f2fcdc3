"""What ``fusionx count`` prints: lines that fit into 80 columns, in a pipe too."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from tvm_fusionx.counting.comparison import Ratio
    from tvm_fusionx.counting.count import Count, HotLoop, KernelCount

# What has fewer instructions is told in plain numbers.
MILLION = 1e6
INDENT = " " * 4
SHORT_CORES = {
    "neoverse-n1": "N1",
    "neoverse-n2": "N2",
    "cortex-a55": "A55",
    "neoverse-v1": "V1",
}

KERNEL_ROW = "{:>6}{:>8}{:>8}{:>6}{:>7}{:>7}"
KERNEL_NAMES = ("share", "instr.", "mul-add", "each", "stack", "moves")
LOOP_ROW = "{:>6}{:>9}{:>5}{:>5}{:>6}{:>6}{:>7}{:>6}{:>6}"
LOOP_NAMES = ("share", "turns", "len", "mla", "each", "loads", "stores", "stack", "moves")
KERNEL_CYCLES = "{:>9}"
LOOP_CYCLES = "{:>6}"
LOOPS = "hottest loops: instructions (len), multiply-adds (mla); mla a cycle, by core"


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
    title = f"{ours.model}, one inference for {ours.core} on QEMU's {ours.emulated}"
    title += _Unit.of(ours).title
    click.echo(textwrap.fill(title, console.width))
    console.print(_totals(counts))
    for ratio in ratios:
        click.echo(f"ours / best other: {ratio.value:.3f} {ratio.measure} ({ratio.best})")
    for side, error in (errors or {}).items():
        click.echo(f"{side}: outputs {_told_error(error)}")
    if shown:
        _print_kernels(ours, shown, console.width)
        _print_loops(ours, shown, console.width)
    click.echo(textwrap.fill(LIMITS, console.width))


def print_assembly(count: Count, loops: int) -> None:
    """Print the hottest loops, disassembled."""
    for number, loop in enumerate(count.loops[:loops], 1):
        click.echo(f"\nloop {number}, {loop.kernel}: {loop.turns} turns")
        for line in loop.code:
            click.echo(f"  {line}")


def _told_error(error: float | None) -> str:
    if error is None:
        return "of another size than ours"
    if error == math.inf:
        return "are NaN or infinite where ours are not, or the other way"
    return f"{error:.1e} from ours"


def _totals(counts: Sequence[Count]) -> Table:
    told = _Unit.of(counts[0])
    table = Table("", *(count.side for count in counts), box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, field in (
        ("instructions", "instructions"),
        ("multiply-adds", "multiply_adds"),
        ("loads", "loads"),
        ("stores", "stores"),
        ("stack accesses", "stack"),
        ("moves", "moves"),
        ("other vector", "vector"),
        ("branches", "branches"),
        ("other", "other"),
        ("bytes loaded", "loaded_bytes"),
        ("bytes stored", "stored_bytes"),
    ):
        table.add_row(name, *(told(getattr(count.total, field)) for count in counts))
    for name, field in (("bytes past L1", "l1_bytes"), ("bytes past L2", "l2_bytes")):
        table.add_row(name, *(_or_dash(getattr(count.total, field), told) for count in counts))
    for core in counts[0].total.cycles:
        cycles = (told(count.total.cycles[core]) for count in counts)
        table.add_row(f"cycles of {_short(core)}", *cycles)
    return table


def _print_kernels(count: Count, shown: int, width: int) -> None:
    """Print the kernels that execute most, each one's name below its numbers."""
    cores, told = list(count.total.cycles), _Unit.of(count)
    click.echo("")
    click.echo(KERNEL_ROW.format(*KERNEL_NAMES) + _of_cores(KERNEL_CYCLES, map(_short, cores)))
    whole = count.total.instructions
    for kernel in count.kernels[:shown]:
        tally = kernel.tally
        row = KERNEL_ROW.format(
            f"{tally.instructions / whole:.1%}",
            *(told(each) for each in (tally.instructions, tally.multiply_adds)),
            _each(tally.instructions, tally.multiply_adds),
            *(told(each) for each in (tally.stack, tally.moves)),
        )
        cycles = (told(tally.cycles[core]) for core in cores)
        click.echo(row + _of_cores(KERNEL_CYCLES, cycles))
        click.echo(_named(_kernel_name(kernel, told), width))
    rest = count.kernels[shown:]
    if rest:
        ran = sum(kernel.tally.instructions for kernel in rest)
        row = KERNEL_ROW.format(f"{ran / whole:.1%}", told(ran), "", "", "", "")
        click.echo(f"{row.rstrip()}  {len(rest)} more")


def _kernel_name(kernel: KernelCount, told: _Unit) -> str:
    tally = kernel.tally
    past = [
        f"{told(number)} {told.of_bytes} past {cache}"
        for cache, number in (("L1", tally.l1_bytes), ("L2", tally.l2_bytes))
        if number
    ]
    return ", ".join([f"{kernel.name}: {kernel.template or 'no template'}", *past])


def _print_loops(count: Count, shown: int, width: int) -> None:
    """Print the hottest loops; of cycles, the multiply-adds of one."""
    if not count.loops:
        return
    click.echo(f"\n{LOOPS}")
    cores = list(count.total.cycles)
    click.echo(LOOP_ROW.format(*LOOP_NAMES) + _of_cores(LOOP_CYCLES, map(_short, cores)))
    for loop in count.loops[:shown]:
        numbers = (loop.loads, loop.stores, loop.stack, loop.moves)
        row = LOOP_ROW.format(
            f"{loop.instructions / count.total.instructions:.1%}",
            *(loop.turns, loop.length, loop.multiply_adds),
            *(_each(loop.length, loop.multiply_adds), *numbers),
        )
        adds = (_adds_of_a_cycle(loop, core) for core in cores)
        click.echo(row + _of_cores(LOOP_CYCLES, adds))
        click.echo(_named(loop.kernel, width))


def _adds_of_a_cycle(loop: HotLoop, core: str) -> str:
    return f"{loop.multiply_adds / loop.cycles[core]:.2f}" if loop.cycles[core] else "-"


def _of_cores(form: str, texts: Iterable[str]) -> str:
    return "".join(form.format(each) for each in texts)


def _named(name: str, width: int) -> str:
    return textwrap.fill(INDENT + name, width, subsequent_indent=INDENT * 2, break_on_hyphens=False)


def _short(core: str) -> str:
    return SHORT_CORES.get(core, core)


def _each(instructions: int, multiply_adds: int) -> str:
    """Return the instructions for each multiply-add."""
    return f"{instructions / multiply_adds:.2f}" if multiply_adds else "-"


def _or_dash(number: float, told: _Unit) -> str:
    return told(number) if number else "-"


@dataclass(frozen=True)
class _Unit:
    """In what numbers are told: millions, or plain ones where a model has fewer instructions.

    A text has at most six characters, seven of cycles, so that columns stay apart.
    """

    in_millions: bool

    @classmethod
    def of(cls, count: Count) -> _Unit:
        """Return the unit for the numbers of a count, and for those beside it."""
        return cls(count.total.instructions >= MILLION)

    @property
    def title(self) -> str:
        """Return what a title says of it."""
        return "; in millions" if self.in_millions else ""

    @property
    def of_bytes(self) -> str:
        """Return what a number of bytes is followed by."""
        return "MB" if self.in_millions else "bytes"

    def __call__(self, number: float) -> str:
        """Return a number's text."""
        if not self.in_millions:
            return f"{number:.0f}"
        millions = number / MILLION
        for least, form in _FORMS:
            if millions >= least:
                return format(millions, form)
        return f"{millions:.1g}"


# From so many millions on: how they are written.
_FORMS = ((1000, ".0f"), (0.1, ".4g"), (0.0001, ".4f"))
