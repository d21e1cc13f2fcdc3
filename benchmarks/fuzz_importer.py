"""Damage valid models and import them: each is taken, or refused with a typed error.

Damage is made in a worker process, a hundred models at a time, so that a crash or a hang is one
finding and not the end.

Examples
--------
``python benchmarks/fuzz_importer.py``
``python benchmarks/fuzz_importer.py --count 10000 --first 5000``
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import resource
import signal
import subprocess
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

DEFAULT_COUNT = 2000
MODELS_A_PROCESS = 100
# An import of these models takes well under a second.
LIMIT_SECONDS = 20
# So much that no sound import of a small model comes near, and a machine is not brought down.
MOST_BYTES = 8 << 30
FINE = ("taken", "refused")


def import_one(content: bytes) -> tuple[str, str]:
    """Return what became of an import, and where it failed or why it was refused."""
    import tvm_fusionx as fx
    from tvm_fusionx.errors import FusionXError

    try:
        fx.from_onnx(content)
    except FusionXError as error:
        cause = error.__cause__
        is_net = "if it is valid, report this" in str(error)
        text = f"{type(error).__name__}: {error}"
        return ("net" if is_net else "refused"), text + (f" <- {cause!r}" if is_net else "")
    except BaseException:  # what a user must never see
        return "raw", traceback.format_exc()[-1500:]
    return "taken", ""


def work(first: int, count: int) -> None:
    """Import damaged models and print one line of JSON for each."""
    from tests.frontend.mutations import mutate
    from tests.frontend.valid_models import valid_models

    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    models = list(valid_models().items())
    for seed in range(first, first + count):
        name, model = models[seed % len(models)]
        content = mutate(model, seed)
        signal.alarm(LIMIT_SECONDS)
        outcome, text = import_one(content)
        signal.alarm(0)
        print(json.dumps([seed, name, outcome, text]), flush=True)


def run(first: int, count: int) -> list[list[Any]]:
    """Import `count` damaged models in worker processes and return what became of each."""
    found: list[list[Any]] = []
    seed, end = first, first + count
    while seed < end:
        step = min(MODELS_A_PROCESS, end - seed)
        command = [sys.executable, __file__, "--work", str(seed), str(step)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        found += lines
        seed += len(lines)
        if len(lines) < step:
            reason = done.stderr.strip()[-1500:]
            found.append([seed, "", "crashed", f"exit {done.returncode}: {reason}"])
            seed += 1
        print(f"{len(found)} of {count}", file=sys.stderr, flush=True)
    return found


def main() -> int:
    """Print what was found, and exit with 1 if a user would meet a raw error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=DEFAULT_COUNT)
    parser.add_argument("--first", type=int, default=0, help="first seed (default: 0)")
    parser.add_argument("--show", action="store_true", help="print every message")
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(*arguments.work)
        return 0
    found = run(arguments.first, arguments.count)
    for seed, name, outcome, text in found:
        if arguments.show or outcome not in FINE:
            print(f"seed {seed} ({name}) {outcome}: {text}\n")
    counts = Counter(outcome for _, _, outcome, _ in found)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    return 1 if set(counts) - {*FINE, "net"} else 0


if __name__ == "__main__":
    sys.exit(main())
