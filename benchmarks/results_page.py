"""Write docs/results.md, a summary, and the whole of the newest run of benchmarks/zoo.py.

    python benchmarks/results_page.py [benchmarks/results/DATE/DEVICE]

The whole run goes to out/results/, as Markdown and as one HTML file with plots; `make docs` puts
both into the site.
"""

from __future__ import annotations

import html
import math
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import field_tables
from further_sections import sustained, tuned, tuning
from kernel_profile import behind
from measured_runs import (
    CONTROL,
    NONE,
    OURS,
    ROOT,
    SIDES,
    WHAT_IS_WRONG,
    WRONG,
    MeasuredRun,
    Section,
    commands_of,
    commits_of,
    is_right,
    kept_runs,
    measured_sides,
    newest_run,
    read_run,
)
from readme_table import how_measured
from result_plots import latency_bars, roofline
from results_summary import brief
from standing import best_peer, summary

SUMMARY = ROOT / "docs" / "results.md"
# Build output, which git does not keep.
WHOLE = ROOT / "out" / "results"
MARKDOWN, HTML = WHOLE / "full_run.md", WHOLE / "results.html"
MEBI = 1 << 20


def sections(run: MeasuredRun) -> list[Section]:
    """Return every table that has rows, and what there is to say where we are not first."""
    before = [make(run) for make in (_latency, sustained, tuned, tuning, _fusion, _memory, _times)]
    failures = _failures(run)
    return [
        *(section for section in before if section[3]),
        *behind(run),
        # Those that are measured apart say so where they are not.
        *(make(run) for make in (_accuracy, _ablation, _growth)),
        *([failures] if failures[3] else []),
    ]


def _latency(run: MeasuredRun) -> Section:
    sides = measured_sides(run)
    rows = []
    for result in run.results:
        latency = result["latency_ms"]
        right = [side for side in sides if side in latency and is_right(result, side)]
        least = min((latency[side]["median"] for side in right), default=math.nan)
        cells = [_times_cell(latency.get(side), least, side in right) for side in sides]
        best = best_peer(result)
        rows.append([result["model"], *cells, f"{best[1]} {SIDES[best[0]]}" if best else NONE])
    text = (
        "Milliseconds: median, and from the 10th to the 90th percentile; the least is bold. "
        f"{WRONG} {WHAT_IS_WRONG}. The best other runtime's time over ours is the median of the "
        "ratios of turns that both took within seconds of each other; in brackets where that "
        "median lies in 95 of 100 cases."
    )
    header = ["model", *(SIDES[side] for side in sides), "best other / ours"]
    return "Latency", text, header, rows


def _times_cell(row: dict[str, float] | None, least: float, is_right: bool) -> str:
    if row is None:
        return NONE
    median = f"{row['median']:.2f}"
    if not is_right:
        return f"{median}{WRONG} ({row['p10']:.2f}-{row['p90']:.2f})"
    marked = f"**{median}**" if row["median"] == least else median
    return f"{marked} ({row['p10']:.2f}-{row['p90']:.2f})"


def _fusion(run: MeasuredRun) -> Section:
    rows = []
    told = [s for s in SIDES if any(s in each.get("peer_kernels", {}) for each in run.results)]
    for result in run.results:
        kernels, moved, ops = result["kernels"], result["intermediate_bytes"], result["ops"]
        others = result.get("peer_kernels", {})
        rows.append(
            [
                result["model"],
                ops,
                _kernels_cell(kernels[OURS], ops),
                _kernels_cell(kernels["tvm"], ops),
                *(_kernels_cell(others.get(side), ops) for side in told),
                *(_mebi(moved.get(side)) for side in (OURS, CONTROL, "tvm")),
            ]
        )
    text = (
        "Kernels of each side, in brackets the fusion rate: operators of the imported model for "
        "each. Reshapes that move nothing are no kernels; the other runtimes count what they "
        "execute after their own fusion, and those that do not tell are left out. MiB: what "
        "kernels write for other kernels in one run."
    )
    header = ["model", "operators", "ours", "TVM", *(SIDES[side] for side in told)]
    header += ["MiB, ours", "MiB, unfused", "MiB, TVM"]
    return "Fusion", text, header, rows


def _kernels_cell(kernels: int | None, operators: int) -> str:
    return f"{kernels} ({operators / kernels:.1f})" if kernels else NONE


def _memory(run: MeasuredRun) -> Section:
    measured = [
        side for side in SIDES if any(side in each.get("memory_bytes", {}) for each in run.results)
    ]
    rows = []
    for result in run.results:
        if not result.get("planned_bytes"):
            continue
        planned, code = result["planned_bytes"], result.get("code_bytes", {})
        memory = result.get("memory_bytes", {})
        rows.append(
            [
                result["model"],
                _mebi(planned[OURS]["weights"]),
                _mebi(planned[OURS]["activations"]),
                _mebi(planned[OURS].get("workspace")),
                _mebi(planned.get("tvm", {}).get("activations")),
                _mebi(code.get(OURS)),
                _mebi(code.get("tvm")),
                *(_memory_cell(memory.get(side)) for side in measured),
            ]
        )
    text = (
        "MiB. Planned: constants, and everything else in the executor's pool; workspace: what the "
        "hungriest kernel allocates while it runs, by TVM's count. Code: the linked "
        "library without constants. Peak: what loading the model and running it three times adds "
        "to a fresh process, its runtime loaded; in brackets what of it is left."
    )
    header = ["model", "weights", "activations", "workspace", "TVM's activations", "code"]
    header.append("TVM's code")
    return "Size and memory", text, [*header, *(f"peak, {SIDES[s]}" for s in measured)], rows


def _memory_cell(memory: dict[str, int] | None) -> str:
    if memory is None:
        return NONE
    peak, after = (memory[when] - memory["before"] for when in ("peak", "after"))
    return f"{_mebi(peak)} ({_mebi(after)})"


def _times(run: MeasuredRun) -> Section:
    sides = [side for side in SIDES if any(side in r.get("prepare_s", {}) for r in run.results)]
    rows = [
        [
            result["model"],
            f"{result['import_s']:.1f}",
            *(
                f"{result['prepare_s'][side]:.1f}" if side in result["prepare_s"] else NONE
                for side in sides
            ),
        ]
        for result in run.results
        if result.get("prepare_s")
    ]
    text = (
        "Seconds: reading ONNX into Relay, and until each side is ready: build, or load, convert, "
        "compile and one run. What an earlier run has kept counts with the seconds that it took "
        "then. Models prepared side by side (`--jobs`) share the cores: alone, each "
        "takes less."
    )
    return "Time to build", text, ["model", "import", *(SIDES[side] for side in sides)], rows


def _accuracy(run: MeasuredRun) -> Section:
    told = [s for s in SIDES if any(s in each.get("rel_err", {}) for each in run.results)]
    others = [side for side in told if side != OURS]
    rows = [
        [
            each["model"],
            _error_cell(each["max_rel_err"]),
            f"{1 - each['cosine']:.1e}",
            *(_error_cell(each.get("rel_err", {}).get(side)) for side in others),
        ]
        for each in run.results
    ]
    text = (
        "Largest difference from ONNX Runtime without optimisation, relative to the largest output."
    )
    return "Accuracy", text, ["model", "ours", "1 - cosine", *(SIDES[s] for s in others)], rows


def _error_cell(error: float | None) -> str:
    return NONE if error is None else f"{error:.1e}"


def _ablation(run: MeasuredRun) -> Section:
    versions = list(next(iter(run.ablation.values()), {}))
    rows = [
        [model, *(_version_cell(found.get(version)) for version in versions)]
        for model, found in run.ablation.items()
    ]
    commits = {row.get("commit", "") for found in run.ablation.values() for row in found.values()}
    text = (
        "Kernels and latency with parts taken away "
        f"(`python benchmarks/ablation.py`{_made_on(commits)})."
    )
    return "Ablation", text, ["model", *versions], rows


def _version_cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return NONE
    latency = f", {found['latency_ms']:.2f} ms" if "latency_ms" in found else ""
    return f"{found['kernels']}{latency}"


def _growth(run: MeasuredRun) -> Section:
    rows = []
    for axis, found in run.growth.items():
        points, slopes = found["points"], found["exponents"]
        first, last = points[0], points[-1]
        rows.append(
            [
                axis,
                f"{first['size']} to {last['size']}",
                f"{first['kernels']} to {last['kernels']}",
                f"{first['planning_s']:.2f} to {last['planning_s']:.2f}",
                f"{first['fusionx_ms']:.2f} to {last['fusionx_ms']:.2f}",
                f"{first['tvm_ms']:.2f} to {last['tvm_ms']:.2f}",
                *(
                    f"{slopes[name]:.2f}" if name in slopes else NONE
                    for name in ("planning_s", "fusionx_ms", "tvm_ms")
                ),
            ]
        )
    points = [point for found in run.growth.values() for point in found["points"]]
    commits = {point.get("commit", "") for point in points}
    text = (
        "A small network of which one number grows (`python benchmarks/cost_growth.py`"
        f"{_made_on(commits)}), and the "
        "slopes of straight lines through the logarithms: 1 is linear."
    )
    header = ["axis", "size", "kernels", "planning s", "ours ms", "TVM ms"]
    header += ["exponent of planning", "of our latency", "of TVM's"]
    return "Cost growth", text, header, rows


def _made_on(commits: set[str]) -> str:
    """Return the commits that a file beside the models' was made on, as far as it tells them."""
    if not commits:
        return "; not measured in this run"
    told = sorted(commits - {""})
    return f", on {', '.join(told)}" if told else ", on a commit of its own"


def _failures(run: MeasuredRun) -> Section:
    rows = [
        [each["model"], SIDES.get(side, side), message.replace("|", "\\|")]
        for each in run.results
        for side, message in sorted(each["errors"].items())
    ]
    rows += [
        [model, "all", message.replace("|", "\\|")]
        for model, message in sorted(run.facts.get("failed", {}).items())
    ]
    text = "What a side could not convert, load or run, or computed otherwise."
    return "Failures", text, ["model", "side", "message"], rows


def _mebi(size: int | None) -> str:
    return NONE if size is None else f"{size / MEBI:.1f}"


def markdown(run: MeasuredRun) -> str:
    """Return the page in Markdown."""
    facts = run.facts
    lines = [
        "# The whole of the newest run",
        "",
        f"Made by {commands_of(run)} on {facts.get('date', '')} at commit "
        f"{', '.join(commits_of(run))}; `benchmarks/results_page.py` writes it. "
        "The same with plots is [results.html](results.html).",
        "",
        summary(run),
        "",
        how_measured(run),
    ]
    for title, text, header, rows in sections(run):
        lines += ["", f"## {title}", "", text]
        if not rows:
            continue
        lines += ["", f"| {' | '.join(header)} |"]
        lines.append("|---" + "|---:" * (len(header) - 1) + "|")
        lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def page(run: MeasuredRun) -> str:
    """Return the page in HTML: one file, plots as SVG inside."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>tvm_fusionx: measured</title>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<style>{STYLE}</style><h1>Measured</h1>",
        f"<p>{html.escape(summary(run))}</p><p>{html.escape(how_measured(run))}</p>",
        "<h2>Latency in milliseconds, logarithmic</h2>",
        f"<div class='wide'>{latency_bars(run)}</div>",
    ]
    if run.machine and any(each.get("blocks") for each in run.results):
        parts += [
            "<h2>Roofline: each block of every model is a point</h2>",
            "<p>Blocks are timed alone: one above the slope finds its operands in the caches.</p>",
            f"<div class='wide'>{roofline(run)}</div>",
        ]
    for title, text, header, rows in sections(run):
        parts.append(f"<h2>{html.escape(title)}</h2><p>{html.escape(text)}</p>")
        if not rows:
            continue
        cells = "".join(f"<th>{html.escape(name)}</th>" for name in header)
        parts += [f"<div class='wide'><table><tr>{cells}</tr>"]
        parts += [f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in rows]
        parts.append("</table></div>")
    return "\n".join(parts) + "\n"


# What is wider than a phone scrolls by itself: no word is cut, and the text stays in the window.
STYLE = """
:root { --page: #fff; --ink: #222; --quiet: #5b6570; --line: #ddd; --stripe: #f4f4f4;
  color-scheme: light dark }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171a; --ink: #e7eaee; --quiet: #9aa5b1; --line: #343b43; --stripe: #1d2126 }
}
body { font: 14px system-ui, sans-serif; margin: 2em auto; max-width: 1400px; padding: 0 1em;
  background: var(--page); color: var(--ink) }
table { border-collapse: collapse } td, th { padding: 2px 6px; text-align: right }
td:first-child, th:first-child { text-align: left; white-space: nowrap; position: sticky; left: 0;
  background: inherit }
tr { background: var(--page) } tr:nth-child(even) { background: var(--stripe) }
.range { display: block; white-space: nowrap; font-size: 12px; color: var(--quiet) }
.wide { overflow-x: auto } svg { width: 100%; min-width: 760px }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink) } svg .value { font-size: 10px }
.grid { stroke: var(--line) } .roof { stroke: var(--ink) }
"""


# From one number to another, which a line must not cut in two.
RANGE = re.compile(r"\([\d.]+-[\d.]+\)")


def _html_cell(value: Any) -> str:
    text = RANGE.sub(r"<span class='range'>\g<0></span>", html.escape(str(value)))
    if text.startswith("**"):
        _, bold, rest = text.split("**", 2)
        text = f"<b>{bold}</b>{rest}"
    return f"<td>{text}</td>"


def main(folder: Path | None) -> None:
    """Write the summary and both forms of the whole run."""
    run = read_run(folder) if folder is not None else None
    if run is None or not run.results:
        sys.exit(f"{folder or 'benchmarks/results'}: no measurements; run `make bench` first")
    SUMMARY.write_text(brief(run, kept_runs(), field_tables.sections()), encoding="utf-8")
    WHOLE.mkdir(parents=True, exist_ok=True)
    MARKDOWN.write_text(markdown(run), encoding="utf-8")
    HTML.write_text(page(run), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else newest_run())
