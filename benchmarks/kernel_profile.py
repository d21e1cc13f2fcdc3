"""Where some side is faster than ours: the profile of our kernels that says why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_runs import NONE, OURS, SIDES, MeasuredRun, Row, Section

GIGA = 1e9
MICRO = 1e-6
MILLISECONDS_OF_A_MICROSECOND = 1e-3
# Rows of a model, kernels of equal work in one; what is left is one row.
SHOWN_KERNELS = 8
SHOWN_TEMPLATES = 3


def faster_sides(result: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the sides whose median is below ours with their milliseconds, the fastest first."""
    medians = {side: row["median"] for side, row in result["latency_ms"].items()}
    ours = medians.pop(OURS)
    faster = [(side, median) for side, median in medians.items() if median < ours]
    return sorted(faster, key=lambda item: item[1])


def behind(run: MeasuredRun) -> list[Section]:
    """Return a table for each model on which some side is faster: our heaviest kernels."""
    return [
        _profile_of(result, run.machine, faster)
        for result in run.results
        if (faster := faster_sides(result))
    ]


def least_microseconds(block: dict[str, Any], machine: dict[str, Any]) -> float:
    """Return what a kernel takes at the machine's measured peaks, whichever bounds it.

    No more than it took: a table of which few rows are read counts as a whole, and operands may lie
    in the caches.
    """
    computing = (block["flops"] or 0) / machine["gflops_per_second"] / GIGA
    moving = block["bytes"] / machine["gbytes_per_second"] / GIGA
    return min(max(computing, moving) / MICRO, block["us"])


def where_time_goes(result: dict[str, Any]) -> str:
    """Return the heaviest templates with their share of the kernels' time and their speeds."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for block in result.get("blocks", []):
        groups.setdefault(block["template"] or "unknown", []).append(block)
    total = sum(block["us"] for block in result.get("blocks", []))
    told = []
    heaviest = sorted(groups.items(), key=lambda item: -sum(block["us"] for block in item[1]))
    for template, blocks in heaviest[:SHOWN_TEMPLATES]:
        taken = sum(block["us"] for block in blocks)
        flops = sum(block["flops"] or 0 for block in blocks) / taken / MICRO / GIGA
        moved = sum(block["bytes"] for block in blocks) / taken / MICRO / GIGA
        told.append(f"{template} {taken / total:.0%} ({flops:.0f} GFLOP/s, {moved:.0f} GB/s)")
    return "; ".join(told) or "not profiled"


def _profile_of(
    result: dict[str, Any], machine: dict[str, Any], faster: list[tuple[str, float]]
) -> Section:
    blocks = result.get("blocks", [])
    total = sum(block["us"] for block in blocks)
    groups = sorted(map(_together, _of_equal_work(blocks)), key=lambda group: -group["us"])
    rows: list[Row] = [_row(group, total, machine) for group in groups[:SHOWN_KERNELS]]
    rest = groups[SHOWN_KERNELS:]
    if rest:
        rows.append(_row({**_together(rest), "name": "others", "template": ""}, total, machine))
    header = ["kernel", "times", "template", "µs", "share", "GFLOP/s", "% of peak", "GB/s"]
    header += ["% of copying"]
    return f"Not first: {result['model']}", _told(result, machine, faster), header, rows


def _told(result: dict[str, Any], machine: dict[str, Any], faster: list[tuple[str, float]]) -> str:
    """Return who is faster, and what our kernels' times add up to."""
    ours = result["latency_ms"][OURS]["median"]
    others = ", ".join(
        f"{SIDES.get(side, side)} {median:.2f} ({median / ours:.2f} of ours)"
        for side, median in faster
    )
    told = f"Ours takes {ours:.2f} ms; faster: {others}."
    blocks = result.get("blocks", [])
    if not blocks:
        return f"{told} Our kernels were not profiled."
    alone = sum(block["us"] for block in blocks) * MILLISECONDS_OF_A_MICROSECOND
    told += f" Our {len(blocks)} kernels, each alone, add up to {alone:.2f} ms"
    if machine:
        least = sum(least_microseconds(block, machine) for block in blocks)
        told += f"; at the machine's peaks {least * MILLISECONDS_OF_A_MICROSECOND:.2f} ms"
    return f"{told}. By template: {where_time_goes(result)}."


def _of_equal_work(blocks: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return kernels of one template, as many operations and as many bytes together."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for block in blocks:
        groups.setdefault((block["template"], block["flops"], block["bytes"]), []).append(block)
    return list(groups.values())


def _together(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": blocks[0]["name"],
        "template": blocks[0]["template"],
        "times": sum(block.get("times", 1) for block in blocks),
        "us": sum(block["us"] for block in blocks),
        "flops": sum(block["flops"] or 0 for block in blocks),
        "bytes": sum(block["bytes"] for block in blocks),
    }


def _row(block: dict[str, Any], total: float, machine: dict[str, Any]) -> Row:
    taken = block["us"] * MICRO
    flops = block["flops"] / taken / GIGA if block["flops"] else None
    moved = block["bytes"] / taken / GIGA
    return [
        block["name"],
        block["times"],
        block["template"] or NONE,
        f"{block['us']:.0f}",
        f"{block['us'] / total:.0%}",
        f"{flops:.0f}" if flops is not None else NONE,
        _part(flops, machine.get("gflops_per_second")),
        f"{moved:.0f}",
        _part(moved, machine.get("gbytes_per_second")),
    ]


def _part(value: float | None, whole: float | None) -> str:
    return NONE if value is None or whole is None else f"{value / whole:.0%}"
