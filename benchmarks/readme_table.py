"""Write the table of measurements in README.md from the JSON files of ``fusionx bench --json``.

python benchmarks/readme_table.py [benchmarks/results]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"

SIDES = {
    "fusionx": "ours",
    "unfused": "unfused",
    "tvm": "TVM",
    "ort": "ORT",
    "openvino": "OpenVINO",
    "mnn": "MNN",
    "ncnn": "ncnn",
}
VERSIONS = ("tvm", "ort", "openvino", "mnn", "ncnn")


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Return the results in `folder`, smallest latency first; other benchmarks' files stay out."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    results = [each for each in found if "latency_ms" in each]
    return sorted(results, key=lambda result: result["latency_ms"]["fusionx"]["median"])


def table(results: Iterable[dict[str, Any]]) -> str:
    """Return the Markdown table, a row a model, and a line on how it was measured."""
    results = list(results)
    sides = [side for side in SIDES if any(side in result["latency_ms"] for result in results)]
    header = ["model", "operators", "kernels", "TVM's kernels", *map(SIDES.get, sides)]
    header += ["TVM / ours", "max rel. error"]
    lines = [f"| {' | '.join(map(str, header))} |", "|---" + "|---:" * (len(header) - 1) + "|"]
    for result in results:
        latency = result["latency_ms"]
        medians = [f"{latency[side]['median']:.1f}" if side in latency else "-" for side in sides]
        over = latency["tvm"]["median"] / latency["fusionx"]["median"] if "tvm" in latency else None
        cells = [
            result["model"],
            result["ops"],
            result["kernels"]["fusionx"],
            result["kernels"]["tvm"] or "-",
            *medians,
            f"{over:.2f}" if over else "-",
            f"{result['max_rel_err']:.1e}",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, "", _how_measured(results)])


def _how_measured(results: list[dict[str, Any]]) -> str:
    """Return the device, threads, runs, spread and versions."""
    versions: dict[str, str] = {}
    for result in results:
        versions |= result["versions"]
    spread = max(
        row["p90"] / row["p10"] for result in results for row in result["latency_ms"].values()
    )
    runs = min(row["n"] for result in results for row in result["latency_ms"].values())
    devices = sorted({f"{result['device']}, {result['threads']} threads" for result in results})
    names = ", ".join(f"{SIDES[key]} {versions[key]}" for key in VERSIONS if key in versions)
    return (
        f"Median milliseconds of at least {runs} interleaved runs a side on {'; '.join(devices)}; "
        f"the widest spread of one side (p90 / p10) is {spread:.2f}. {names}."
    )


def fill(readme: str, text: str) -> str:
    """Return the README with `text` between its two markers.

    Raises
    ------
    ValueError
        The markers are not there.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md: expected the markers {BEGIN} and {END}; found them missing")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main(folder: Path) -> None:
    """Rewrite README.md."""
    results = read_results(folder)
    if not results:
        sys.exit(f"{folder}: no *.json; run `make bench` first")
    path = ROOT / "README.md"
    path.write_text(fill(path.read_text(encoding="utf-8"), table(results)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)
