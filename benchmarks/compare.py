"""Say what is significantly better or worse between two measurements of the zoo.

    python benchmarks/compare.py OLD NEW

OLD and NEW are folders of `fusionx bench --json` files, such as benchmarks/results/DATE/DEVICE, or
two such files. A machine is not equally
fast on two days, so what is compared is our time over that of a *yardstick*: the geometric mean of
the other runtimes that both measured in the same version, each in the same interleaved run, and
that computed what the reference did. A change counts when it is larger than the scatter of the runs
and than what the other runtimes, which did not change, moved against each other.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_runs import is_right

from tvm_fusionx.errors import EXIT_OK, EXIT_USAGE, EXIT_WRONG_RESULT

OURS = "fusionx"
# Made by this package: a change of ours moves them too.
OURS_TOO = ("unfused", "fusionx-tuned")
# Half the distance from the 10th to the 90th percentile of a normal distribution, in deviations.
DEVIATIONS = 1.2816
# Changes this many standard errors wide happen by chance once in 370 comparisons, were they normal.
# Between two full runs of one machine 2 of 180 times of runtimes that did not change moved so far.
SIGNIFICANT = 3.0
# Deviations of a normal distribution in the median distance from its mean.
DEVIATIONS_A_MEDIAN = 1.4826
# Fewer runtimes say nothing of how far one moves against the others.
FEWEST_OTHERS = 3
# Below this nobody cares, however sure it is.
LEAST_CHANGE = 0.02


@dataclass(frozen=True)
class Change:
    """What became of one model.

    Attributes
    ----------
    model
        Its name.
    ratio
        New time over old time, both in units of the yardstick; below 1 is faster.
    error
        One standard error of the logarithm of `ratio`.
    kernels
        Kernels before and after.
    """

    model: str
    ratio: float
    error: float
    kernels: tuple[int, int]

    @property
    def verdict(self) -> str:
        """Return `better`, `worse` or `same`."""
        moved = math.log(self.ratio)
        if abs(moved) < max(SIGNIFICANT * self.error, LEAST_CHANGE):
            return "same"
        return "better" if moved < 0 else "worse"


def compare(old: Mapping[str, Any], new: Mapping[str, Any], scatter: float = 0.0) -> Change | str:
    """Compare two results of one model, or say why they cannot be compared.

    Parameters
    ----------
    old, new
        As ``docs/bench_schema.md`` has them.
    scatter
        What :func:`scatter_of_others` says of all models.
    """
    for fact in ("threads", "device"):
        if old[fact] != new[fact]:
            return f"{fact} {old[fact]} and {new[fact]}"
    if OURS not in old["latency_ms"] or OURS not in new["latency_ms"]:
        return "not measured on both sides"
    shared = _shared(old, new)
    if not shared:
        return "no other runtime was measured on both sides, in one version and right"
    logs = [_in_yardsticks(each["latency_ms"], shared) for each in (old, new)]
    return Change(
        new["model"],
        math.exp(logs[1][0] - logs[0][0]),
        math.hypot(logs[0][1], logs[1][1], scatter * math.sqrt(1 + 1 / len(shared))),
        (old["kernels"][OURS], new["kernels"][OURS]),
    )


def scatter_of_others(pairs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> float:
    """Return how far a runtime that did not change moves against the others, as a deviation.

    `pairs` are old and new results of models; the deviation is of logarithms of times, by the
    median of all distances: few are very far off.
    """
    distances = []
    for old, new in pairs:
        before, after = old["latency_ms"], new["latency_ms"]
        moved = [
            math.log(after[side]["median"] / before[side]["median"]) for side in _shared(old, new)
        ]
        if len(moved) >= FEWEST_OTHERS:
            # Each is part of the mean, and nearer to it than to where the others are.
            larger = math.sqrt(len(moved) / (len(moved) - 1))
            distances += [abs(each - statistics.mean(moved)) * larger for each in moved]
    return DEVIATIONS_A_MEDIAN * statistics.median(distances) if distances else 0.0


def _shared(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the other runtimes that both measured in one version, and that were right."""
    versions = [each.get("versions", {}) for each in (old, new)]
    return sorted(
        side
        for side in (old["latency_ms"].keys() & new["latency_ms"].keys()) - {OURS, *OURS_TOO}
        if versions[0].get(side) == versions[1].get(side)
        and is_right(old, side)
        and is_right(new, side)
    )


def _in_yardsticks(latency: Mapping[str, Any], shared: list[str]) -> tuple[float, float]:
    """Return the logarithm of our time in yardsticks, and its standard error."""
    logs = {side: math.log(latency[side]["median"]) for side in (OURS, *shared)}
    errors = {side: _standard_error(latency[side]) for side in (OURS, *shared)}
    yardstick = sum(logs[side] for side in shared) / len(shared)
    return logs[OURS] - yardstick, math.hypot(
        errors[OURS], math.hypot(*(errors[side] for side in shared)) / len(shared)
    )


def _standard_error(latency: Mapping[str, float]) -> float:
    """Return the relative standard error of a median of scattered times."""
    deviation = (latency["p90"] - latency["p10"]) / (2 * DEVIATIONS) / latency["median"]
    # The median of normal values scatters by sqrt(pi / 2) as much as their mean.
    return deviation * math.sqrt(math.pi / 2 / latency["n"])


def results_in(path: Path) -> dict[str, dict[str, Any]]:
    """Return the results in a file or folder, by model."""
    files: Iterable[Path] = sorted(path.glob("*.json")) if path.is_dir() else [path]
    read = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    # What a run says of itself is no result.
    return {result["model"]: result for result in read if "latency_ms" in result}


def main() -> int:
    """Print the comparison; return 1 when a model became worse."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args()
    old, new = results_in(options.old), results_in(options.new)
    if not old.keys() & new.keys():
        print("The two have no model in common.", file=sys.stderr)
        return EXIT_USAGE
    table = Table("model", "", Column("time", justify="right"), "kernels", box=None)
    worse = 0
    both = sorted(old.keys() & new.keys())
    scatter = scatter_of_others(
        (old[model], new[model]) for model in both if old[model]["device"] == new[model]["device"]
    )
    for model in both:
        found = compare(old[model], new[model], scatter)
        if isinstance(found, str):
            table.add_row(model, "-", found, "")
            continue
        worse += found.verdict == "worse"
        spread = SIGNIFICANT * found.error
        before, after = found.kernels
        table.add_row(
            model, found.verdict, f"{found.ratio - 1:+.1%} ± {spread:.1%}", f"{before} → {after}"
        )
    console = Console()
    console.print(table)
    console.print(f"Runtimes that did not change moved {scatter:.1%} against each other.")
    for side, models in (("OLD", old.keys() - new.keys()), ("NEW", new.keys() - old.keys())):
        if models:
            console.print(f"Only in {side}: {', '.join(sorted(models))}")
    return EXIT_WRONG_RESULT if worse else EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
