"""Plan, build and run random Relay functions, and compare them with the same without a plan.

    python benchmarks/random_plans.py --count 2000 --seed 0 --jobs 2

Functions come from hypothesis in batches, each with a seed of its own and in a process of its own,
so that a crash costs one batch and names its seed. Planned are all of them in random ways: greedy
or optimal, with tight limits, with operators kept apart, with and without rewriting. A failing
function is shrunk and printed with its seed. Exit code 0 if every batch passed, else 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

BATCH = 50
STEPS = 15
SECONDS_PER_FUNCTION = 30


def run_batch(first_seed: int, count: int, steps: int) -> None:
    """Check `count` functions in this process; an assertion ends it."""
    import tvm
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st

    from tests.random_plans import check_plan, planner_options
    from tests.random_relay import random_relay
    from tvm_fusionx.fusion import PlannerOptions

    @seed(first_seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        print_blob=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(random_relay(most_steps=steps), planner_options(), st.booleans())
    def check(mod: tvm.IRModule, options: PlannerOptions, rewrite: bool) -> None:
        check_plan(mod, options, rewrite=rewrite)

    check()


def spawn(first_seed: int, count: int, steps: int) -> tuple[int, str]:
    """Run a batch in a process of its own; return its exit code and what it wrote."""
    command = [sys.executable, __file__, "--batch", "--seed", str(first_seed)]
    command += ["--count", str(count), "--steps", str(steps)]
    try:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=count * SECONDS_PER_FUNCTION,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, "it hung"
    return ended.returncode, ended.stdout + ended.stderr


def main() -> int:
    """Run all batches and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--count", type=int, default=2000, help="how many functions")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first batch")
    parser.add_argument("--steps", type=int, default=STEPS, help="most operators, about, of each")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--batch", action="store_true", help="run one batch, here")
    options = parser.parse_args()
    if options.batch:
        run_batch(options.seed, options.count, options.steps)
        return 0
    start = time.monotonic()
    sizes = [min(BATCH, options.count - done) for done in range(0, options.count, BATCH)]
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        seeds = range(options.seed, options.seed + len(sizes))
        answers = pool.map(lambda pair: spawn(*pair, options.steps), zip(seeds, sizes, strict=True))
        for seed, size, (code, output) in zip(seeds, sizes, answers, strict=True):
            print(f"seed {seed}: {size} functions {'FAILED' if code else 'ok'}", flush=True)
            if code:
                failed += 1
                print(output, flush=True)
    seconds = time.monotonic() - start
    print(f"{sum(sizes)} functions in {seconds:.0f} s, {failed} of {len(sizes)} batches failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
