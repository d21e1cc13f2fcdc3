"""Where some side is faster than ours: the profile of our kernels that says why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_runs import NONE, OURS, OURS_TUNED, SIDES, MeasuredRun, Row, Section, is_right
from standing import SideRatio, ratio_to_ours

GIGA = 1e9
MICRO = 1e-6
# The peak counts them so; one instruction does both.
FLOPS_OF_A_MULTIPLY_ADD = 2
MILLISECONDS_OF_A_MICROSECOND = 1e-3
# Rows of a model, kernels of equal work in one; what is left is one row.
SHOWN_KERNELS = 8
SHOWN_TEMPLATES = 3


def faster_sides(result: dict[str, Any]) -> list[tuple[str, SideRatio]]:
    """Return the sides that take less than ours, each with its time over ours, the fastest first.

    Those that computed something else are left out, and ours when tuned.
    """
    ratios = {
        side: ratio_to_ours(result, side)
        for side in result["latency_ms"]
        if side not in (OURS, OURS_TUNED) and is_right(result, side)
    }
    faster = [(side, ratio) for side, ratio in ratios.items() if ratio.value < 1]
    return sorted(faster, key=lambda item: item[1].value)


def behind(run: MeasuredRun) -> list[Section]:
    """Return a table for each model on which some side is faster: our heaviest kernels."""
    return [
        _profile_of(result, run.machine, faster)
        for result in run.results
        if (faster := faster_sides(result))
    ]


def least_microseconds(work: dict[str, Any], machine: dict[str, Any]) -> float:
    """Return what so much work takes at the machine's measured peaks, whichever bounds it.

    A kernel may take less: copying is measured in memory, and its operands may lie in the caches.
    """
    computing = FLOPS_OF_A_MULTIPLY_ADD * work["instructions"] / machine["gflops_per_second"]
    moving = moved_bytes(work) / machine["gbytes_per_second"]
    return max(computing, moving) / GIGA / MICRO


def moved_bytes(work: dict[str, Any]) -> int:
    """Return the bytes that are read and written, of a table the rows that are."""
    moved: int = work["read_bytes"] + work["written_bytes"]
    return moved


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
        work = _added(blocks)
        speeds = ""
        if work is not None:
            flops, moved = (n / taken / MICRO / GIGA for n in (work["flops"], moved_bytes(work)))
            speeds = f" ({flops:.0f} GFLOP/s, {moved:.0f} GB/s)"
        told.append(f"{template} {taken / total:.0%}{speeds}")
    return "; ".join(told) or "not profiled"


def _profile_of(
    result: dict[str, Any], machine: dict[str, Any], faster: list[tuple[str, SideRatio]]
) -> Section:
    blocks = result.get("blocks", [])
    total = sum(block["us"] for block in blocks)
    groups = sorted(map(_together, _of_equal_work(blocks)), key=lambda group: -group["us"])
    rows: list[Row] = [_row(group, total, machine) for group in groups[:SHOWN_KERNELS]]
    rest = groups[SHOWN_KERNELS:]
    if rest:
        rows.append(_row({**_together(rest), "name": "others", "template": ""}, total, machine))
    header = ["kernel", "times", "template", "µs", "share", "direct GFLOP/s", "GFLOP/s"]
    header += ["% of peak", "GB/s", "% of copying"]
    return f"Not first: {result['model']}", _told(result, machine, faster), header, rows


def _told(
    result: dict[str, Any], machine: dict[str, Any], faster: list[tuple[str, SideRatio]]
) -> str:
    """Return who is faster, and what our kernels' times add up to."""
    ours = result["latency_ms"][OURS]["median"]
    others = "; ".join(
        f"{SIDES.get(side, side)} {result['latency_ms'][side]['median']:.2f}, {ratio} of ours"
        for side, ratio in faster
    )
    told = f"Ours takes {ours:.2f} ms; faster: {others}."
    blocks = result.get("blocks", [])
    if not blocks:
        return f"{told} Our kernels were not profiled."
    alone = sum(block["us"] for block in blocks) * MILLISECONDS_OF_A_MICROSECOND
    told += f" Our {len(blocks)} kernels, each alone, add up to {alone:.2f} ms"
    return f"{told}{_limit(blocks, machine)}. By template: {where_time_goes(result)}."


def _limit(blocks: list[dict[str, Any]], machine: dict[str, Any]) -> str:
    """Return what the kernels take at the machine's peaks, and how many are faster than that."""
    counted = [block for block in blocks if block.get("work") is not None]
    if not machine or not counted:
        return ""
    times = [(least_microseconds(block["work"], machine), block["us"]) for block in counted]
    which = "" if len(counted) == len(blocks) else f"{len(counted)} of them "
    least = sum(limit for limit, _ in times) * MILLISECONDS_OF_A_MICROSECOND
    told = f"; {which}at the machine's peaks, operands in memory, {least:.2f} ms"
    faster = sum(limit > taken for limit, taken in times)
    return f"{told} ({faster} took less than theirs)" if faster else told


def _of_equal_work(blocks: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return kernels of one template and equal operations, bytes and work together."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for block in blocks:
        work = tuple((block.get("work") or {}).items())
        key = (block["template"], block["flops"], block["bytes"], work)
        groups.setdefault(key, []).append(block)
    return list(groups.values())


def _together(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": blocks[0]["name"],
        "template": blocks[0]["template"],
        "times": sum(block.get("times", 1) for block in blocks),
        "us": sum(block["us"] for block in blocks),
        "flops": sum(block["flops"] or 0 for block in blocks),
        "work": _added(blocks),
    }


def _added(blocks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the work of all blocks; None where that of one is unknown, as in older results."""
    works = [block.get("work") for block in blocks]
    known = [work for work in works if work is not None]
    if len(known) < len(works) or not known:
        return None
    return {key: sum(work[key] for work in known) for key in known[0]}


def _row(block: dict[str, Any], total: float, machine: dict[str, Any]) -> Row:
    taken = block["us"] * MICRO
    work = block["work"] or {}
    direct = block["flops"] / taken / GIGA if block["flops"] else None
    flops = work["flops"] / taken / GIGA if work.get("flops") else None
    moved = moved_bytes(work) / taken / GIGA if work else None
    return [
        block["name"],
        block["times"],
        block["template"] or NONE,
        f"{block['us']:.0f}",
        f"{block['us'] / total:.0%}",
        _rounded(direct),
        _rounded(flops),
        _part(flops, machine.get("gflops_per_second")),
        _rounded(moved),
        _part(moved, machine.get("gbytes_per_second")),
    ]


def _rounded(value: float | None) -> str:
    return NONE if value is None else f"{value:.0f}"


def _part(value: float | None, whole: float | None) -> str:
    return NONE if value is None or whole is None else f"{value / whole:.0%}"
