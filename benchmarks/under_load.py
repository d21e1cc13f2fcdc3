"""Measure models beside busy processes: latency, processor time and context switches of all sides.

Each model is measured in a process of its own, on every side, beside 0, 1, 2 and 4 busy processes;
the sides take turns, and no thread is pinned. Ours runs on our thread pool and on TVM's. Writes a
JSON file a model and a table to out/under_load, or where --output says.

    python benchmarks/under_load.py                       # ten models of the zoo
    python benchmarks/under_load.py minilm --busy 0,2 --seconds 5 --vs tvm,ort
    python benchmarks/under_load.py --prepare             # export and convert, for a shorter run
    python benchmarks/under_load.py --table               # only print what was measured
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "out" / "zoo"
# Kept by benchmarks/zoo.py too: conversions, and what TVM compiled.
CONVERSIONS = ROOT / "out" / "conversions"
OUTPUT = ROOT / "out" / "under_load"
TABLE = "table.md"
TARGET = "llvm -mcpu=native"

# Of each kind; none takes more than some 30 ms, so that each has many runs.
NAMES = (
    *("mobilenet-v1", "mobilenet-v2", "mobilenet-v3", "efficientnet-b0", "resnet18"),
    *("ppocr-det", "ppocr-rec", "mobilenet-ssd", "tinybert", "minilm"),
)
SIDES = ("tvm", "ort", "openvino", "mnn", "ncnn")
LOADS = (0, 1, 2, 4)
SECONDS = 10.0
# Conversions and builds of one model, on a slow day.
LIMIT_SECONDS = 1800
OURS, OURS_ON_TVMS_POOL = "fusionx", "fusionx-tvm-pool"


def measure(name: str, folder: Path, options: argparse.Namespace) -> None:
    """Export one model, measure it, and write its result."""
    from measured_runs import commit_here

    from tvm_fusionx import zoo
    from tvm_fusionx.output_file import new_file
    from tvm_fusionx.report.bench.bench import bench

    MODELS.mkdir(parents=True, exist_ok=True)
    model = zoo.export(name, MODELS / f"{name}.onnx")
    result = bench(
        model.path,
        TARGET,
        options.sides,
        # What counts is timed beside busy processes, none at first.
        repeat=1,
        inputs=zoo.sample_inputs(name),
        shape=model.shapes,
        threads=options.threads,
        busy=() if options.prepare else dict.fromkeys(options.loads, options.seconds),
        conversions=CONVERSIONS,
        on_stage=lambda what: print(f"{name}: {what}", flush=True),
    )
    for side, message in result.errors.items():
        print(f"{name}: {side}: {message}", flush=True)
    if not options.prepare:
        with new_file(folder / f"{name}.json") as written:
            facts = {**result.to_json(), "commit": commit_here()}
            written.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return the results as Markdown: what each side took, what ours cost, and who was faster."""
    sides = list(dict.fromkeys(side for each in results for side in _sides_of(each)))
    lines = [
        f"| model | busy | {' | '.join(sides)} | CPU ms | switches | median, best other | p90 |",
        f"|---|---:|{'---:|' * len(sides)}---:|---:|---:|---:|",
    ]
    for each in results:
        for load, row in each["loaded_ms"].items():
            cells = [_cell(row.get(side)) for side in sides]
            lines.append(
                f"| {each['model']} | {load} | {' | '.join(cells)} | {_cost(row, 'cpu_ms')} "
                f"| {_cost(row, 'switches')} | {_ratio(row, 'median')} | {_ratio(row, 'p90')} |"
            )
    first = results[0]
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    lines += [
        "",
        f"Median (p90; p99) milliseconds on {first['device']}, {first['threads']} threads; "
        f"processor time and voluntary context switches a run: ours / the least of another "
        f"runtime's; the last two columns: the best other runtime's time over ours. {versions}.",
    ]
    return "\n".join(lines) + "\n"


def _sides_of(result: dict[str, Any]) -> list[str]:
    return [side for row in result["loaded_ms"].values() for side in row]


def _cell(runs: dict[str, float] | None) -> str:
    if runs is None:
        return "-"
    return f"{runs['median']:.1f} ({runs['p90']:.1f}; {runs['p99']:.1f})"


def _others(row: dict[str, Any], key: str) -> list[float]:
    return [runs[key] for side, runs in row.items() if side not in (OURS, OURS_ON_TVMS_POOL)]


def _cost(row: dict[str, Any], key: str) -> str:
    others = _others(row, key)
    least = f" / {min(others):.1f}" if others else ""
    return f"{row[OURS][key]:.1f}{least}" if OURS in row else "-"


def _ratio(row: dict[str, Any], key: str) -> str:
    others = _others(row, key)
    return f"{min(others) / row[OURS][key]:.2f}" if others and OURS in row else "-"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=[], help="of the zoo; ten by default")
    parser.add_argument("--vs", default=",".join(SIDES), help="sides, as `fusionx bench` has them")
    parser.add_argument("--busy", dest="loads", type=_numbers, default=LOADS)
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="of all sides beside one load"
    )
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder of the results")
    parser.add_argument(
        "--prepare", action="store_true", help="export and convert, measure nothing"
    )
    parser.add_argument("--table", action="store_true", help="print what the folder holds")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.models = options.models or list(NAMES)
    options.sides = tuple(side for side in options.vs.split(",") if side)
    return options


def main() -> int:
    """Measure every model named, or ten; return the number that failed."""
    options = _options()
    if options.here:
        measure(options.models[0], options.output, options)
        sys.stdout.flush()
        # At once: the threads of a runtime must not keep a process that has written its result.
        os._exit(0)
    from tvm_fusionx import zoo
    from tvm_fusionx.output_file import make_folder, new_file

    if unknown := sorted(set(options.models) - set(zoo.names())):
        sys.exit(f"no model {', '.join(unknown)}; the zoo has {', '.join(zoo.names())}")
    make_folder(options.output)
    failed = []
    if not options.table:
        words = [sys.executable, __file__, "--here", *_words(options)]
        environment = os.environ | {"TOPHUB_LOCATION": "NONE"}
        for name in options.models:
            command = [*words, name]
            ended = subprocess.run(command, env=environment, timeout=LIMIT_SECONDS, check=False)
            if ended.returncode:
                print(f"{name}: its process ended with {ended.returncode}", flush=True)
                failed.append(name)
    files = [options.output / f"{name}.json" for name in options.models]
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.is_file()]
    if results and not options.prepare:
        text = table(results)
        with new_file(options.output / TABLE) as written:
            written.write_text(text, encoding="utf-8")
        print(text)
    return len(failed)


def _words(options: argparse.Namespace) -> list[str]:
    """Return the options of one model's process."""
    words = ["--vs", options.vs, "--busy", ",".join(map(str, options.loads))]
    words += ["--seconds", str(options.seconds), "--output", str(options.output)]
    words += ["--prepare"] if options.prepare else []
    return words + (["--threads", str(options.threads)] if options.threads is not None else [])


if __name__ == "__main__":
    sys.exit(main())
