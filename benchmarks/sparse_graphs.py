"""Compile seeded random graphs with structured zeros and compare them with ONNX Runtime.

    python benchmarks/sparse_graphs.py --count 500 --seed 0

Every product that can leave zeros out does. Exit code 1 where one differs by more than 1e-5 of its
largest number, or none of the graphs has a sparse product.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.random_sparse import compare
from tests.relay_modules import REASSOCIATING


def main() -> int:
    """Compare them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    wrong, products, worst = [], 0, 0.0
    for seed in tqdm(range(told.seed, told.seed + told.count)):
        error, count = compare(seed)
        products += count
        worst = max(worst, error)
        if not error <= REASSOCIATING:
            wrong.append(seed)
            print(f"seed {seed}: differs by {error:.1e}", flush=True)
    print(
        f"{told.count} graphs, {products} sparse products, largest difference {worst:.1e};"
        f" wrong: {wrong or 'none'}"
    )
    return 1 if wrong or not products else 0


if __name__ == "__main__":
    sys.exit(main())
