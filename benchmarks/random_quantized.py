"""Compile seeded random quantized networks, and hold them to what they mean, to a step.

    python benchmarks/random_quantized.py --count 1000 --seed 0 [--target "llvm -mcpu=native"]
                                          [--out rows.jsonl]

Networks of even seeds are built as any model is, integers where they are estimated to be faster;
those of odd ones on integers wherever there is a kernel. With --out each result is a line of a
file, and a run that was stopped goes on with what is lacking.

Each network is quantized by ONNX Runtime's tool, compiled, run, and compared with ONNX's own
reference evaluator, node by node: no output further than one step of its scale, and fewer than 1 %
of them a step away. Sums of integers are exact; the evaluator rounds its sums of floats, so that a
value within a few units in the last place of a half may fall on either side. Early in a network one
such value moves all that it reaches, so that what is further away is right, too, where ONNX
Runtime, whose floats have 32 bits as ours, is within those bounds of it. Those that go wrong are
named with their seed. Exit code 0 if none did, else 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tqdm import tqdm
from tvm.contrib import graph_executor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tvm_fusionx as fx
from tests.quantized_models import build_on_integers, meaning, step_of_last
from tests.random_quantized import MOST_SHARE, MOST_STEPS, Network, difference
from tvm_fusionx.report.verify.reference import run_onnxruntime

OK, WRONG, FAILED = "ok", "wrong", "failed"


def run(model: Any, x: np.ndarray, target: str, on_integers: bool) -> np.ndarray:
    """Return what the compiled model makes of `x`."""
    mod, params = fx.from_onnx(model)
    build = build_on_integers if on_integers else fx.build
    library = build(mod, target, params)
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.set_input("x", x)
    executor.run()
    result: np.ndarray = executor.get_output(0).numpy()
    return result


def judge(seed: int, target: str) -> tuple[str, str]:
    """Return how the network of a seed went, and what is to be said of it."""
    network = Network(seed)
    with tempfile.TemporaryDirectory() as folder:
        model = network.quantized(Path(folder))
    x = network.layers.input()
    try:
        found = run(model, x, target, on_integers=seed % 2 == 1)
    except Exception:  # whatever a build raises is what is looked for
        return FAILED, traceback.format_exc(limit=-2)
    step = step_of_last(model)
    worst, share = difference(found, meaning(model, x), step)
    if not _is_right(worst, share):
        (rounded,) = run_onnxruntime(model.SerializeToString(), {"x": x})
        worst, share = difference(found, rounded, step)
    is_right = _is_right(worst, share)
    operators = " ".join(node.op_type for node in model.graph.node if "uantize" not in node.op_type)
    return OK if is_right else WRONG, f"{worst:.2f} steps, {share:.2%}: {operators}"


def _is_right(worst: float, share: float) -> bool:
    return worst <= MOST_STEPS and share < MOST_SHARE


def main(words: list[str] | None = None) -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first network")
    parser.add_argument("--target", default="llvm -mcpu=native")
    parser.add_argument("--out", type=Path, help="results as lines of JSON; known ones stay")
    arguments = parser.parse_args(words)
    results = known(arguments.out, arguments.target)
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    for seed in tqdm([seed for seed in seeds if seed not in results], unit="network"):
        status, what = judge(seed, arguments.target)
        results[seed] = status
        if arguments.out is not None:
            row = {"seed": seed, "target": arguments.target, "status": status, "what": what}
            with arguments.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        if status != OK:
            tqdm.write(f"seed {seed}: {status}: {what}")
    counts = Counter(results[seed] for seed in seeds)
    print(", ".join(f"{number} {status}" for status, number in sorted(counts.items())))
    return int(counts[OK] != arguments.count)


def known(path: Path | None, target: str) -> dict[int, str]:
    """Return what a file of earlier results says of a target, by seed; a cut last line is none."""
    found: dict[int, str] = {}
    if path is None or not path.exists():
        return found
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if row["target"] == target:
            found[row["seed"]] = row["status"]
    return found


if __name__ == "__main__":
    sys.exit(main())
