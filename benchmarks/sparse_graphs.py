"""Compile seeded random graphs with structured zeros and compare them with ONNX Runtime.

    python benchmarks/sparse_graphs.py --count 500 --seed 0 [--integers | --opencl] [--out OUT.json]

Every product that can leave zeros out does. Exit code 1 where one differs by more than 1e-5 of its
largest number, quantized graphs (``--integers``) where one differs at all, or where none of the
graphs has a sparse product. Graphs that are in OUT are not run again, so that a run that was
stopped goes on.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from pathlib import Path

from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.random_sparse import compare
from tests.random_sparse_integers import compare as compare_integers
from tests.relay_modules import REASSOCIATING
from tvm_fusionx.devices.opencl_plugin import load_opencl
from tvm_fusionx.output_file import new_file

# Difference, relative to the largest number, and sparse products, by seed.
Known = dict[int, tuple[float, int]]


def read(path: Path | None) -> Known:
    """Return what an earlier run found."""
    if path is None or not path.exists():
        return {}
    told = json.loads(path.read_text(encoding="utf-8"))["graphs"]
    return {int(seed): (float(error), int(count)) for seed, (error, count) in told.items()}


def write(path: Path | None, known: Known, bound: float) -> None:
    """Write what is known, whole or not at all."""
    if path is None:
        return
    wrong = [seed for seed, (error, _) in known.items() if not error <= bound]
    with new_file(path) as scratch:
        told = {"bound": bound, "wrong": wrong, "graphs": known}
        scratch.write_text(json.dumps(told) + "\n", encoding="utf-8")


def main() -> int:
    """Compare them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--integers", action="store_true", help="quantized graphs")
    kinds.add_argument("--opencl", action="store_true", help="on the first OpenCL device")
    parser.add_argument("--out", type=Path)
    told = parser.parse_args()
    bound = 0.0 if told.integers else REASSOCIATING
    differs = compare_integers if told.integers else compare
    if told.opencl:
        load_opencl()
        differs = functools.partial(compare, target_string="opencl")
    known = read(told.out)
    seeds = range(told.seed, told.seed + told.count)
    for seed in tqdm(seeds):
        if seed not in known:
            known[seed] = differs(seed)
            write(told.out, known, bound)
        error = known[seed][0]
        if not error <= bound:
            print(f"seed {seed}: differs by {error:.1e}", flush=True)
    found = {seed: known[seed] for seed in seeds}
    wrong = [seed for seed, (error, _) in found.items() if not error <= bound]
    products = sum(count for _, count in found.values())
    worst = max(error for error, _ in found.values())
    print(
        f"{told.count} graphs, {products} sparse products, largest difference {worst:.1e};"
        f" wrong: {wrong or 'none'}"
    )
    return 1 if wrong or not products else 0


if __name__ == "__main__":
    sys.exit(main())
