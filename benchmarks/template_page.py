"""Write what each template's blocks reach of the machine's limits, as a page that is built."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine_rates import ARITHMETIC, BANDWIDTH, COPY, FILL, READ, WORKING_SETS, MachineRates
from measured_runs import ROOT

from tvm_fusionx.schedules.block_work import Work

# Build output, which git does not keep; `make docs` puts it into the site.
PAGE = ROOT / "out" / "results" / "templates.md"
REASONS = Path(__file__).resolve().parent / "template_reasons.json"
MICROSECONDS = 1e6
GIGA = 1e9
KIBI = 1024
POOR = 0.5
# More would make lines of thousands of characters.
SHOWN_SHAPES = 4


@dataclass(frozen=True)
class BlockRow:
    """One block of the table.

    Attributes
    ----------
    template, model, name, shapes, key
        What it is.
    count
        How many blocks of that model are this one.
    us
        What it took, microseconds.
    gflops, gbytes
        Floating-point operations and bytes a second, in units of 1e9.
    of_peak, of_bandwidth
        Parts of the multiply-adds' peak, and of the bandwidth of plain kernels over as many bytes.
    binds
        The larger of the limits.
    of_limit
        The time of that limit over the time it took.
    """

    template: str
    model: str
    name: str
    shapes: tuple[str, ...]
    key: str
    count: int
    us: float
    gflops: float
    gbytes: float
    of_peak: float
    of_bandwidth: float
    binds: str
    of_limit: float


def rows_of(run: dict[str, Any]) -> list[BlockRow]:
    """Return the rows of a run, the nearest to its limit last."""
    rates = MachineRates.from_json(run["rates"])
    rows = []
    for each in run["blocks"]:
        work, seconds = Work(**each["work"]), each["us"] / MICROSECONDS
        limits = rates.limits(work)
        binds = max(limits, key=lambda name: limits[name])
        rows.append(
            BlockRow(
                each["template"],
                each["model"],
                each["name"],
                tuple(each["shapes"]),
                each["key"],
                each["count"],
                each["us"],
                work.flops / seconds / GIGA,
                work.bytes / seconds / GIGA,
                work.flops / seconds / rates.peak_flops,
                limits[BANDWIDTH] / seconds,
                binds,
                limits[binds] / seconds,
            )
        )
    return sorted(rows, key=lambda row: (row.template, row.of_limit))


def summary(rows: Sequence[BlockRow]) -> list[list[str]]:
    """Return a line a template: blocks, median and least part of the limit, how many are poor."""
    lines = []
    for template in dict.fromkeys(row.template for row in rows):
        own = [row for row in rows if row.template == template]
        parts = [row.of_limit for row in own]
        bound = [row.of_limit for row in own if row.binds == BANDWIDTH]
        poor = sum(part < POOR for part in parts)
        lines.append(
            [
                template,
                str(len(own)),
                f"{statistics.median(parts):.0%}",
                f"{min(parts):.0%}",
                f"{poor} ({poor / len(own):.0%})",
                f"{sum(row.binds == ARITHMETIC for row in own)}",
                f"{statistics.median(row.of_peak for row in own):.0%}",
                f"{statistics.median(bound):.0%} of {len(bound)}" if bound else "-",
            ]
        )
    return lines


def write_page(path: Path) -> None:
    """Write the page of one file of measurements."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page_of(path), encoding="utf-8")


def page_of(path: Path) -> str:
    """Return the page of one file of measurements, with the reasons that are known."""
    run = json.loads(path.read_text(encoding="utf-8"))
    reasons = json.loads(REASONS.read_text(encoding="utf-8")) if REASONS.is_file() else {}
    return page(run, reasons)


def page(run: dict[str, Any], reasons: dict[str, str]) -> str:
    """Return the page: what is measured, the yardsticks, a line a template, a line a block.

    Parameters
    ----------
    run
        What benchmarks/templates.py wrote.
    reasons
        For the keys of blocks, what was found to keep them from their limit.
    """
    rows = rows_of(run)
    parts = [_introduction(run), "## Yardsticks", _yardsticks(run), "## Summary"]
    parts.append(
        table(
            [
                *("template", "blocks", "median of the limit", "least", "under 50 %"),
                *("bound by arithmetic", "median of FMA peak", "median of bandwidth, where bound"),
            ],
            summary(rows),
        )
    )
    for template in dict.fromkeys(row.template for row in rows):
        own = [row for row in rows if row.template == template]
        parts += [f"## {template}", table(HEADER, [cells(row) for row in own])]
        poor = [row for row in own if row.of_limit < POOR]
        if poor:
            said = {row.key: reasons.get(row.key, "not looked into") for row in poor}
            lines = [
                f"- {reason} ({', '.join(row.name for row in poor if said[row.key] == reason)})"
                for reason in dict.fromkeys(said.values())
            ]
            parts += ["Under 50 %:", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


HEADER = (
    *("block", "of", "parameters", "us", "GFLOP/s", "of peak", "GB/s", "of bandwidth", "limit"),
    "of limit",
)


def cells(row: BlockRow) -> list[str]:
    """Return a block's line in its template's table."""
    shapes = [shape.replace("float32", "") for shape in row.shapes]
    inputs = " ".join(shapes[: min(SHOWN_SHAPES, len(shapes) - 1)])
    more = " ..." if len(shapes) - 1 > SHOWN_SHAPES else ""
    return [
        row.name,
        row.model,
        f"`{inputs}{more} -> {shapes[-1]}`",
        f"{row.us:.1f}",
        f"{row.gflops:.0f}",
        f"{row.of_peak:.0%}",
        f"{row.gbytes:.0f}",
        f"{row.of_bandwidth:.0%}",
        row.binds,
        f"{row.of_limit:.0%}",
    ]


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


INTRODUCTION = """# What the templates reach, block by block

Written by `python benchmarks/templates.py page`; do not edit.

Distinct fused blocks of the zoo's models, untuned, each compiled alone and timed warm on
{device}, {threads} threads, {date} (commit {commit}, TVM {tvm}): `{command}`."""

YARDSTICKS = """Arithmetic: {peak:.0f} GFLOP/s of multiply-adds from registers. Any other operation
counts as much time as a multiply-add, a function the operations of its polynomial, and divisions
{divisions:.1f} G/s. Waking the other threads takes {launch:.1f} us more, which the limit holds
unless one thread alone is faster. Minimal filtering counts its products, a quarter to four ninths
of the direct sum's, and none of its transforms.

Bandwidth: tensors that fit a cache are not judged by memory. A block's bytes (what it touches of
its parameters, each element once) are divided by what a plain kernel does with a working set as
large, warm, on one thread or all, whichever is faster (between two sizes, the line between them):
bytes read and written in equal number by copying, the rest by reading or filling. The larger of
the two times is the limit. GB/s:"""


def _introduction(run: dict[str, Any]) -> str:
    return INTRODUCTION.format(**run, threads=run["rates"]["threads"])


def _yardsticks(run: dict[str, Any]) -> str:
    rates = MachineRates.from_json(run["rates"])
    lines = [
        [
            _size(size),
            *(f"{rates.bytes_per_second[name][at] / GIGA:.0f}" for name in (COPY, READ, FILL)),
        ]
        for at, size in enumerate(WORKING_SETS)
    ]
    text = YARDSTICKS.format(
        peak=rates.peak_flops / GIGA,
        divisions=rates.divisions_per_second / GIGA,
        launch=rates.launch_seconds * MICROSECONDS,
    )
    return f"{text}\n\n{table(['bytes', 'copying', 'reading', 'filling'], lines)}"


def _size(size: int) -> str:
    kibi = size // KIBI
    return f"{kibi} KiB" if kibi < KIBI else f"{kibi // KIBI} MiB"
