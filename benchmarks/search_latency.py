"""How far predictions of latency are off: architectures predicted of their kernels, and measured.

    python benchmarks/search_latency.py OUT [--count 200] [--device local] [--space S.json]
        [--launches 8] [--seed 0]

Half of the architectures are CNNs, half are transformers, drawn from the spaces of the searches; a
space of your own takes their place. Each is predicted of its kernels' times and launches, then
built and measured as a whole. A line of ``checks.jsonl`` each is on the disk before the next
begins: the same command goes on where it was ended. ``results.json`` has the median error, which is
to be 5 % at most, the largest, and the rank correlation with latency of predictions and of
operations, the proxy. Nothing else should run beside it on a machine that is timed.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import search_images
import search_text

from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.output_file import new_file
from tvm_fusionx.records.line_file import LineFile, Words
from tvm_fusionx.search.clocks import clock_of
from tvm_fusionx.search.latency import LatencyEstimator
from tvm_fusionx.search.proxy import flops_of
from tvm_fusionx.search.space import Candidate, Space, candidate_key
from tvm_fusionx.search.space_file import load_space, parse_space

WORDS = Words(
    thing="checks of latencies",
    user="one process that checks",
    other="Give another folder, or the device, the seed and the spaces that it is of.",
    full="Make room or give another folder; all checks before are kept.",
)
FORMAT_VERSION = 1
MOST_ERROR = 0.05


def architectures(spaces: Sequence[Space], count: int, seed: int) -> Iterator[Candidate]:
    """Yield different candidates, of each space in turn.

    A space that is told before gives no more.
    """
    generator = random.Random(seed)
    seen: set[str] = set()
    left = [(space, space.size()) for space in spaces]
    while len(seen) < count and left:
        for space, size in list(left):
            if size == 0:
                left.remove((space, size))
                continue
            candidate = space.sample(generator)
            while candidate_key(candidate) in seen:
                candidate = space.sample(generator)
            seen.add(candidate_key(candidate))
            left[left.index((space, size))] = space, size - 1
            yield candidate
            if len(seen) == count:
                return


def ranks(values: Sequence[float]) -> list[float]:
    """Return the place of each value, equal ones in the middle of theirs."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    places = [0.0] * len(values)
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and values[order[stop]] == values[order[start]]:
            stop += 1
        for at in order[start:stop]:
            places[at] = (start + stop - 1) / 2
        start = stop
    return places


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Spearman's correlation; 0 where one side does not vary."""
    pairs = ranks(one), ranks(other)
    if any(len(set(side)) < 2 for side in pairs):
        return 0.0
    return statistics.correlation(*pairs)


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what is told of all checks."""
    usable = [row for row in rows if row["measured_us"] is not None]
    if not usable:
        raise SystemExit(f"none of {len(rows)} architectures could be built and run")
    errors = [row["predicted_us"] / row["measured_us"] - 1 for row in usable]
    measured = [row["measured_us"] for row in usable]
    absolute = sorted(map(abs, errors))
    return {
        "architectures": len(rows),
        "measured": len(usable),
        "median_error": statistics.median(absolute),
        "error_of_90_percent": absolute[math.ceil(0.9 * len(absolute)) - 1],
        "largest_error": absolute[-1],
        "median_difference": statistics.median(errors),
        "is_close_enough": statistics.median(absolute) <= MOST_ERROR,
        "rank_correlation": rank_correlation([row["predicted_us"] for row in usable], measured),
        "rank_correlation_of_operations": rank_correlation(
            [row["operations"] for row in usable], measured
        ),
        "rows": list(rows),
    }


def main(words: list[str] | None = None) -> int:
    """Check all, write what was found, and return 1 where predictions are too far off."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--device", default="local")
    parser.add_argument("--space", type=Path, help="JSON file of a space of your own")
    parser.add_argument("--launches", type=int, default=8, help="networks to measure launches by")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    spaces = [parse_space(search_images.SPACE), parse_space(search_text.SPACE)]
    if options.space is not None:
        spaces = [load_space(options.space)]
    options.output.mkdir(parents=True, exist_ok=True)
    database = ProfileDatabase(options.output / "profiles.sqlite")
    with clock_of(options.device) as clock:
        rows = check_all(options, spaces, LatencyEstimator(clock, database), str(clock.setting))
    report = {"device": options.device, "seed": options.seed, **summary(rows)}
    with new_file(options.output / "results.json") as scratch:
        scratch.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    told = {name: value for name, value in report.items() if name != "rows"}
    print(json.dumps(told, indent=1))
    return 0 if report["is_close_enough"] else 1


def check_all(
    options: argparse.Namespace, spaces: Sequence[Space], estimator: Any, setting: str
) -> list[dict[str, Any]]:
    """Return a row for each architecture, those of before from the file."""
    header = {
        "fusionx_latency_checks": FORMAT_VERSION,
        "spaces": [space.digest() for space in spaces],
        "setting": setting,
        "seed": options.seed,
        "launches": options.launches,
    }
    rows: list[dict[str, Any]] = []
    launch: list[float] = []

    def believe(row: dict[str, Any]) -> None:
        if "launch_us" in row:
            launch.append(float(row["launch_us"]))
        else:
            rows.append(row)

    lines = LineFile(options.output / "checks.jsonl", header, WORDS)
    try:
        lines.read(believe)
        if not launch:
            # Of other networks than those that are checked.
            others = architectures(spaces, options.launches, options.seed + 1)
            lines.append({"launch_us": estimator.calibrate(list(others))})
            launch.append(estimator.launch_us)
        estimator.launch_us = launch[0]
        known = {row["key"] for row in rows}
        for candidate in architectures(spaces, options.count, options.seed):
            key = candidate_key(candidate)
            if key in known:
                continue
            check = estimator.check(candidate)
            row = {
                "key": key,
                "choices": candidate["choices"],
                "predicted_us": check.predicted_us,
                "measured_us": check.measured_us,
                "launches": check.launches,
                "operations": flops_of(candidate),
            }
            if not (math.isfinite(check.predicted_us) and math.isfinite(check.measured_us)):
                row |= {"predicted_us": None, "measured_us": None}
            lines.append(row)
            rows.append(row)
            print(f"{len(rows)} of {options.count}: off by {check.error:.2%}", flush=True)
    finally:
        lines.close()
    return rows[: options.count]


if __name__ == "__main__":
    raise SystemExit(main())
