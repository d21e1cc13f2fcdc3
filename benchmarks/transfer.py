"""Count the trials that older tuning saves, from the journals of sessions that were run.

    python benchmarks/transfer.py out/tuning out/other-tuning ...

Nothing is measured: what the first session of each folder of records tried is put in another order.
For each block, how many candidates must be tried until one is as fast as the best of them, within
5 %? Once in the order of a cost model that learned from all sessions of other models alone, as a
new session begins with, and once in a random order, of which the mean is known. Only a first
session will do: what a later one tried, the cost model chose, and the best are those that it was
wrong about. Of a first one `--tuner autotvm --search random` chooses without any model.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tvm_fusionx.tuning.cost_model import CostModel, TaskFeatures
from tvm_fusionx.tuning.task import choice_key
from tvm_fusionx.tuning.tune import JOURNALS

NEAR = 1.05
# Of fewer candidates no order matters.
FEWEST = 16


@dataclass
class Block:
    """What a session tried of one block: choices and seconds, infinite where one failed."""

    features: TaskFeatures
    default_seconds: float = math.inf
    candidates: list[tuple[dict[str, Any], float]] = field(default_factory=list)


@dataclass(frozen=True)
class Needed:
    """Trials of one block until one is near the best of `candidates`."""

    template: str
    candidates: int
    ranked: int
    """In the order of the cost model."""
    random: float
    """In a random order, on average."""


def rows_of(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of all journals under `folder`."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


@dataclass
class Session:
    """A session of a journal: its model, and what it tried of each block, by the block's key."""

    model: str
    blocks: dict[str, Block] = field(default_factory=dict)


def sessions_of(rows: Iterator[Mapping[str, Any]]) -> list[Session]:
    """Return the sessions of a journal's lines in their order."""
    features: dict[str, TaskFeatures] = {}
    found: dict[int, Session] = {}
    running: dict[int, tuple[str, dict[str, Any]]] = {}
    session = Session("")
    for row in rows:
        event = row.get("event")
        if event in ("session", "resume"):
            session = found.setdefault(row["session"], Session(row.get("model", "")))
        elif event == "task":
            features[row["task"]] = TaskFeatures.from_json(row)
        elif event == "start":
            running[row["trial"]] = row["task"], row["knobs"]
        elif event == "end":
            key, choice = running.pop(row["trial"])
            block = session.blocks.setdefault(key, Block(features[key]))
            seconds = min(row.get("seconds", ()), default=math.inf)
            if choice_key(choice) == choice_key(block.features.default):
                block.default_seconds = min(block.default_seconds, seconds)
            else:
                block.candidates.append((choice, seconds))
    return list(found.values())


def until_near(seconds: Sequence[float]) -> int:
    """Return how many are tried, in this order, until one is near the least of all."""
    return next(n for n, each in enumerate(seconds, 1) if each <= min(seconds) * NEAR)


def needed(first: Session, teachers: Sequence[Session]) -> list[Needed]:
    """Return what each block of a first session needs, by what sessions of other models teach.

    Blocks that one of them had too are left out, as are those of a kind that none had.
    """
    others = [each.blocks for each in teachers if each.model != first.model]
    taught = CostModel()
    for blocks in others:
        for block in blocks.values():
            for choice, taken in block.candidates:
                taught.add(block.features, choice, taken, block.default_seconds)
    found = []
    for key, block in first.blocks.items():
        choices = [choice for choice, _ in block.candidates]
        seconds = [each for _, each in block.candidates]
        is_known = any(key in blocks for blocks in others)
        if is_known or len(choices) < FEWEST or not taught.knows(block.features):
            continue
        least = min(seconds)
        if not math.isfinite(least):
            continue
        scores = taught.predict(block.features, choices)
        order = sorted(range(len(choices)), key=lambda place: -scores[place])
        good = sum(each <= least * NEAR for each in seconds)
        ranked = until_near([seconds[place] for place in order])
        # The mean place of the first of `good` among n in a random order.
        random = (len(seconds) + 1) / (good + 1)
        found.append(Needed(block.features.template, len(seconds), ranked, random))
    return found


def summary(name: str, found: Sequence[Needed]) -> str:
    """Return a line on some blocks: trials until near the best, and how many times fewer.

    The mean is a geometric one over blocks, whatever the number of their candidates.
    """
    ranked, random = sum(each.ranked for each in found), sum(each.random for each in found)
    fewer = statistics.geometric_mean(each.random / each.ranked for each in found)
    return (
        f"{name}: {len(found)} blocks, {sum(each.candidates for each in found)} candidates; "
        f"until near the best of each, {ranked} trials in the order that other models teach and "
        f"{random:.0f} in a random one; {fewer:.2f} times fewer for a block; medians "
        f"{statistics.median(each.ranked for each in found):.0f} and "
        f"{statistics.median(each.random for each in found):.1f}"
    )


def main() -> None:
    """Print what the sessions of other models would have saved the first ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", type=Path, nargs="+", help="folders of records")
    options = parser.parse_args()
    sessions = [sessions_of(rows_of(folder / JOURNALS)) for folder in options.records]
    teachers = [each for folder in sessions for each in folder]
    everything: list[Needed] = []
    for first, *_ in filter(None, sessions):
        found = needed(first, teachers)
        if not found:
            print(f"{first.model}: no block of a kind that sessions of other models teach")
            continue
        everything += found
        print(summary(first.model, found))
        for each in sorted(found, key=lambda row: -row.random):
            counts = f"{each.candidates:4} candidates {each.ranked:4} {each.random:7.1f}"
            print(f"  {each.template:20} {counts}")
    if not everything:
        sys.exit("nothing to compare")
    print(summary("all", everything))


if __name__ == "__main__":
    main()
