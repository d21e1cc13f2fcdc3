"""Write the tables of measurements in README.md: the zoo's newest run, and the field.

python benchmarks/readme_table.py [benchmarks/results/DATE/DEVICE]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import field_tables
from measured_runs import (
    ROOT,
    SIDES,
    WHAT_IS_WRONG,
    WRONG,
    MeasuredRun,
    is_right,
    measured_sides,
    newest_run,
    read_run,
)

MARKERS = ("<!-- {}:begin -->", "<!-- {}:end -->")
ZOO, FIELD = "bench", "field"


def table(run: MeasuredRun) -> str:
    """Return the Markdown table, a row a model, and a line on how it was measured."""
    sides = measured_sides(run)
    header = ["model", "operators", "kernels", "TVM's kernels", *map(SIDES.__getitem__, sides)]
    header += ["TVM / ours", "max rel. error"]
    lines = [f"| {' | '.join(header)} |", "|---" + "|---:" * (len(header) - 1) + "|"]
    for result in run.results:
        latency = result["latency_ms"]
        medians = [_median(result, side) for side in sides]
        over = latency["tvm"]["median"] / latency["fusionx"]["median"] if "tvm" in latency else None
        cells = [
            result["model"],
            result["ops"],
            result["kernels"]["fusionx"],
            result["kernels"]["tvm"] or "-",
            *medians,
            f"{over:.2f}" if over else "-",
            "-" if result["max_rel_err"] is None else f"{result['max_rel_err']:.1e}",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, "", how_measured(run)])


def _median(result: dict[str, Any], side: str) -> str:
    if side not in result["latency_ms"]:
        return "-"
    mark = "" if is_right(result, side) else WRONG
    return f"{result['latency_ms'][side]['median']:.1f}{mark}"


def how_measured(run: MeasuredRun) -> str:
    """Return the device, its peaks, threads, runs, spread and versions."""
    versions: dict[str, str] = {}
    for result in run.results:
        versions |= result["versions"]
    rows = [row for result in run.results for row in result["latency_ms"].values()]
    spread = max(row["p90"] / row["p10"] for row in rows)
    runs = min(row["n"] for row in rows)
    devices = sorted({f"{each['device']}, {each['threads']} threads" for each in run.results})
    names = ", ".join(f"{SIDES[key]} {versions[key]}" for key in SIDES if key in versions)
    is_any_wrong = any(
        not is_right(each, side) for each in run.results for side in each["latency_ms"]
    )
    wrong = f" {WRONG} {WHAT_IS_WRONG}." if is_any_wrong else ""
    peaks = ""
    if run.machine:
        peaks = (
            f" (measured peak {run.machine['gflops_per_second']:.0f} GFLOP/s, "
            f"copying {run.machine['gbytes_per_second']:.0f} GB/s{_while_timed(run)})"
        )
    return (
        f"Median milliseconds of at least {runs} interleaved runs a side on "
        f"{'; '.join(devices)}{peaks}; "
        f"the widest spread of one side (p90 / p10) is {spread:.2f}. {names}.{wrong}"
    )


def _while_timed(run: MeasuredRun) -> str:
    """Return how fast the machine was between turns: medians of the models, and what was asked."""
    found = [each["machine"] for each in run.results if "machine" in each]
    if not found:
        return ""
    medians, least = [each["median"] for each in found], min(each["least"] for each in found)
    asked = min(each["asked"] for each in found)
    waited = f", after waiting for {asked:.0f}" if asked else ""
    return (
        f"; {min(medians):.0f} to {max(medians):.0f} GFLOP/s in the median of each model's turns, "
        f"{least:.0f} at least{waited}"
    )


def fill(readme: str, text: str, part: str = ZOO) -> str:
    """Return the README with `text` between the two markers of a part.

    Raises
    ------
    ValueError
        The markers are not there.
    """
    first, last = (marker.format(part) for marker in MARKERS)
    before, begin, rest = readme.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"README.md: expected the markers {first} and {last}; found them missing")
    return f"{before}{first}\n{text}\n{last}{after}"


def main(folder: Path | None) -> None:
    """Rewrite README.md."""
    run = read_run(folder) if folder is not None else None
    if run is None or not run.results:
        sys.exit(f"{folder or 'benchmarks/results'}: no measurements; run `make bench` first")
    path = ROOT / "README.md"
    readme = fill(path.read_text(encoding="utf-8"), table(run))
    field = field_tables.sections(heading="###", docs="docs/")
    path.write_text(fill(readme, field, FIELD), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else newest_run())
