"""Measure the zoo's models beside TVM, the unfused control and other runtimes.

Writes a JSON file a model to benchmarks/results/ and the table in README.md. Each model is measured
in a process of its own, so that none runs in the memory that another has fragmented.

    python benchmarks/zoo.py [MODEL ...]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "out" / "zoo"
RESULTS = ROOT / "benchmarks" / "results"
TARGET = "llvm -mcpu=native"
REPEAT = 50


def measure(name: str, repeat: int) -> None:
    """Export one model, measure it, and write its result."""
    # Here and not above: the parent process only starts others.
    from tvm_fusionx import zoo
    from tvm_fusionx.report.bench import bench

    MODELS.mkdir(parents=True, exist_ok=True)
    model = zoo.export(name, MODELS / f"{name}.onnx")
    result = bench(
        model.path,
        TARGET,
        repeat=repeat,
        inputs=zoo.sample_inputs(name),
        shape=model.shapes,
        on_stage=lambda what: print(f"{name}: {what}", flush=True),
    )
    RESULTS.mkdir(parents=True, exist_ok=True)
    result.save_json(RESULTS / f"{name}.json")
    for side, latency in result.latency_ms.items():
        print(f"{name}: {side} {latency.median:.2f} ms ({latency.p10:.2f} - {latency.p90:.2f})")
    for side, message in result.errors.items():
        print(f"{name}: {side}: {message}")


def main() -> int:
    """Measure every model named, or all; return the number that failed."""
    from tvm_fusionx import zoo

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=[], help=f"of {', '.join(zoo.names())}")
    parser.add_argument("--repeat", type=int, default=REPEAT, help="timed runs a side")
    parser.add_argument(
        "--missing", action="store_true", help="only models without a result: go on after a stop"
    )
    parser.add_argument("--here", action="store_true", help="measure in this process")
    options = parser.parse_args()
    models = options.models or list(zoo.names())
    if options.missing:
        models = [name for name in models if not (RESULTS / f"{name}.json").exists()]
    if options.here:
        for name in models:
            measure(name, options.repeat)
        return 0
    environment = os.environ | {"TOPHUB_LOCATION": "NONE"}
    failed = 0
    for name in models:
        command = [sys.executable, __file__, "--here", "--repeat", str(options.repeat), name]
        failed += subprocess.run(command, env=environment, check=False).returncode != 0
    subprocess.run([sys.executable, str(ROOT / "benchmarks" / "readme_table.py")], check=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
