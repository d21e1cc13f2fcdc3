"""Compile seeded random ONNX graphs and compare them with ONNX Runtime.

    python benchmarks/random_graphs.py --count 1000 --seed 0 --jobs 2 [--precision float16]

Every graph runs in a worker process, so that a crash or a hang costs one graph. Graphs that go
wrong are shrunk and written to a folder: ``SEED-STATUS.onnx``, ``.inputs.npz``, ``.outputs.npz``.
With --precision float16 or bfloat16 the graphs are in it; the reference is the graph in float32.
Exit code 0 if no graph was wrong, crashed, hung or failed with an untyped error, else 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.random_graphs import RandomModel, generate
from tests.random_graphs.builder import BRAIN, HALF, SINGLE
from tests.random_graphs.check import CRASHED, FAILED, HUNG, OK, REFUSED, WRONG, Outcome
from tests.random_graphs.models import DEFAULT_SIZE
from tests.random_graphs.pool import COMPILERS, Pool, Task
from tests.random_graphs.shrink import shrink

PRECISIONS = {"float32": SINGLE, "float16": HALF, "bfloat16": BRAIN}
STATUSES = (OK, REFUSED, FAILED, WRONG, CRASHED, HUNG)
BAD = (FAILED, WRONG, CRASHED, HUNG)
SECONDS_PER_GRAPH = 300.0
MESSAGE_WIDTH = 300


def as_task(random_model: RandomModel) -> Task:
    """Return what a worker needs of a model."""
    drawn = random_model
    return drawn.model, drawn.inputs, drawn.outputs, drawn.tolerances


def describe(random_model: RandomModel) -> str:
    """Return the operators of a model on one line."""
    return " ".join(node.op_type for node in random_model.model.graph.node)


def write(random_model: RandomModel, status: str, folder: Path, suffix: str = "") -> Path:
    """Write a model with its inputs and reference outputs."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{random_model.seed}-{status}{suffix}"
    onnx.save(random_model.model, f"{stem}.onnx")
    np.savez(f"{stem}.inputs.npz", **random_model.inputs)
    np.savez(f"{stem}.outputs.npz", **random_model.outputs)
    return Path(f"{stem}.onnx")


def first_line(message: str) -> str:
    """Return the line of an error that says most: TVM puts it last."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return (lines[0] if len(lines) < 2 else f"{lines[0]} ... {lines[-1]}")[:MESSAGE_WIDTH]


def report_failure(pool: Pool, random_model: RandomModel, outcome: Outcome, folder: Path) -> None:
    """Shrink a failing model, write both, and print what is left."""
    write(random_model, outcome.status, folder)

    def fails(candidate: RandomModel) -> bool:
        return pool.check_one(as_task(candidate)).status == outcome.status

    small = shrink(random_model, fails)
    path = write(small, outcome.status, folder, suffix="-small")
    print(f"seed {random_model.seed}: {outcome.status}: {first_line(outcome.message)}")
    print(f"    opset {small.model.opset_import[0].version}, {describe(small)}: {path}", flush=True)


def parse_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--count", type=int, default=1000, help="how many graphs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first graph")
    parser.add_argument("--size", type=int, default=DEFAULT_SIZE, help="nodes a graph")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--timeout", type=float, default=SECONDS_PER_GRAPH, help="seconds a graph")
    parser.add_argument("--via", choices=sorted(COMPILERS), default="fusionx", help="compiler")
    parser.add_argument("--out", type=Path, default=Path("out/random_graphs"), help="failures")
    parser.add_argument("--no-shrink", action="store_true", help="only count and write")
    return parser.parse_args()


def main() -> int:
    """Run the fuzz and return the exit code."""
    options = parse_arguments()
    models: dict[int, RandomModel] = {}
    operators: Counter[str] = Counter()

    def tasks() -> Iterator[tuple[int, Task]]:
        for seed in range(options.seed, options.seed + options.count):
            models[seed] = generate(seed, options.size, PRECISIONS[options.precision])
            operators.update(models[seed].operators)
            yield seed, as_task(models[seed])

    counts: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    failures: list[tuple[RandomModel, Outcome]] = []
    start = time.monotonic()
    with Pool(options.via, options.jobs, options.timeout) as pool:
        outcomes = tqdm(pool.check_all(tasks()), total=options.count, unit="graph", disable=None)
        for seed, outcome in outcomes:
            counts[outcome.status] += 1
            model = models.pop(seed)
            if outcome.status == REFUSED:
                refusals[first_line(outcome.message)] += 1
            elif outcome.status in BAD:
                line = f"seed {seed}: {outcome.status}: {first_line(outcome.message)}"
                tqdm.write(line, file=sys.stdout)
                sys.stdout.flush()
                failures.append((model, outcome))
        print(f"{time.monotonic() - start:.0f} s for {sum(counts.values())} graphs", flush=True)
        for model, outcome in failures:
            if options.no_shrink:
                write(model, outcome.status, options.out)
            else:
                report_failure(pool, model, outcome, options.out)
    for message, count in refusals.most_common():
        print(f"refused {count}: {message}")
    print(f"{len(operators)} operators, {sum(operators.values())} nodes, via {options.via}")
    print(", ".join(f"{status} {counts[status]}" for status in STATUSES))
    return 1 if any(counts[status] for status in BAD) else 0


if __name__ == "__main__":
    sys.exit(main())
