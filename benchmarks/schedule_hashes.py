"""Hash the schedules of all blocks of the zoo for four processors, and compare with the file.

    python benchmarks/schedule_hashes.py check [MODEL ...]   # a changed hash names its block
    python benchmarks/schedule_hashes.py write               # what is today becomes the file

A restructuring leaves every hash as it is; a change of a template changes the hashes of what it
serves, and the file's difference shows which. The blocks are planned once and kept in out/; `check`
and `write` with ``--fresh`` plan them anew, since a planner that changed makes other blocks.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tvm
from measured_runs import ROOT
from template_blocks import read_block, unscheduled_blocks

from tvm_fusionx import zoo
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.lowering_log import block_hash

FILE = Path(__file__).with_name("schedule_hashes.json")
MODELS = ROOT / "out" / "zoo"
BLOCKS = ROOT / "out" / "schedule-blocks"
JOBS = 2

# Two cores each: how many the machine at hand has changes nothing.
PROCESSORS = {
    "avx2": "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=2",
    "avx512-amd": "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2",
    "avx512-intel": "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake -num-cores=2",
    "neon": "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=2",
}

Hashes = dict[str, dict[str, list[str]]]
"""By processor and block: template, hash of the scheduled kernel, model, the block's name."""


@dataclass(frozen=True)
class Work:
    """The blocks of one model for one processor."""

    model: str
    processor: str
    is_fresh: bool


def hashes_of(work: Work) -> dict[str, list[str]]:
    """Return, by the key of a block, its template, the hash of its kernel, model and name."""
    target = resolve_target(PROCESSORS[work.processor])
    rows = {}
    for key, name, func in _blocks(work, target):
        scheduled = schedule(func, target)
        digest = str(tvm.ir.structural_hash(scheduled.func))
        rows[key] = [scheduled.template, digest, work.model, name]
    return rows


def _blocks(work: Work, target: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield key, name and unscheduled TensorIR of each distinct block, planned once."""
    folder = BLOCKS / work.processor
    known = folder / f"{work.model}.json"
    if work.is_fresh or not known.is_file():
        logging.getLogger("autotvm").setLevel(logging.ERROR)
        folder.mkdir(parents=True, exist_ok=True)
        names: dict[str, str] = {}
        for name, func in unscheduled_blocks(work.model, MODELS, target):
            key = block_hash(func)
            if key not in names:
                names[key] = name
                (folder / f"{key}.tir").write_text(tvm.ir.save_json(func), encoding="utf-8")
        known.write_text(json.dumps(names, indent=1), encoding="utf-8")
    for key, name in json.loads(known.read_text(encoding="utf-8")).items():
        yield key, name, read_block(folder, key)


def all_hashes(models: Sequence[str], is_fresh: bool) -> Hashes:
    """Return the hashes of the models' blocks for each processor."""
    for name in models:
        if not (MODELS / f"{name}.onnx").is_file():
            MODELS.mkdir(parents=True, exist_ok=True)
            zoo.export(name, MODELS / f"{name}.onnx")
    works = [Work(model, processor, is_fresh) for model in models for processor in PROCESSORS]
    found: Hashes = {processor: {} for processor in PROCESSORS}
    with ProcessPoolExecutor(JOBS, max_tasks_per_child=1) as pool:
        for at, (work, rows) in enumerate(zip(works, pool.map(hashes_of, works), strict=True), 1):
            found[work.processor] = {**rows, **found[work.processor]}
            print(f"{at} of {len(works)}: {work.model} {work.processor}: {len(rows)}", flush=True)
    return found


def differences(
    expected: Mapping[str, Mapping[str, Sequence[str]]],
    found: Mapping[str, Mapping[str, Sequence[str]]],
    models: Iterable[str],
) -> list[str]:
    """Return a line for each block that is scheduled otherwise, is missing, or is new."""
    wanted = set(models)
    lines = []
    for processor, rows in found.items():
        known = expected.get(processor, {})
        for key, (template, digest, model, name) in rows.items():
            where = f"{processor}: {model}: {name} ({key})"
            if key not in known:
                lines.append(f"{where}: new block, {template}")
            elif [template, digest] != list(known[key][:2]):
                was = known[key][0]
                lines.append(f"{where}: {was if was == template else f'{was} -> {template}'}")
        lines += [
            f"{processor}: {model}: {name} ({key}): no such block any more, was {template}"
            for key, (template, _, model, name) in known.items()
            if key not in rows and model in wanted
        ]
    return lines


def merged(known: Hashes, found: Hashes, models: Iterable[str]) -> Hashes:
    """Return the known rows of other models, and those found of these."""
    renewed = set(models)
    return {
        processor: {
            **{key: row for key, row in known.get(processor, {}).items() if row[2] not in renewed},
            **rows,
        }
        for processor, rows in found.items()
    }


def read_file(path: Path = FILE) -> Hashes:
    """Return the hashes of the committed file."""
    loaded: Hashes = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def write_file(hashes: Hashes, path: Path = FILE) -> None:
    """Write hashes, a line a block, in one order."""
    sections = []
    for processor, rows in hashes.items():
        lines = [f"  {json.dumps(key)}: {json.dumps(row)}" for key, row in sorted(rows.items())]
        sections.append(f" {json.dumps(processor)}: {{\n" + ",\n".join(lines) + "\n }")
    path.write_text("{\n" + ",\n".join(sections) + "\n}\n", encoding="utf-8")


def main(words: Sequence[str] | None = None) -> int:
    """Check or write; return 1 where a schedule changed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("what", choices=("check", "write"))
    parser.add_argument("models", nargs="*", help=f"of {', '.join(zoo.names())}; all by default")
    parser.add_argument("--fresh", action="store_true", help="plan the models anew")
    options: Any = parser.parse_args(words)
    models = options.models or list(zoo.names())
    found = all_hashes(models, options.fresh)
    count = sum(map(len, found.values()))
    if options.what == "write":
        write_file(merged(read_file() if FILE.is_file() else {}, found, models))
        print(f"{count} schedules of {len(models)} models written to {FILE.relative_to(ROOT)}")
        return 0
    lines = differences(read_file(), found, models)
    print("\n".join(lines or [f"{count} schedules of {len(models)} models are as in the file."]))
    if lines:
        print(f"{len(lines)} of {count} schedules changed: say why, and run `write`.")
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
