"""What composability saves: networks put together of trained blocks, against trained anew (Wootz).

    python benchmarks/newsgroups.py data.npz --tokens 64 --vocabulary 4000
    python benchmarks/search_composed.py OUT --data data.npz [--networks 4] [--steps 600]
        [--block-steps 100] [--blocks 6] [--seed 0]

A teacher is trained on 20 Newsgroups, then networks of its depth and width are explored. One side
trains each of them anew. The other side trains the blocks that a grammar of them finds, each once,
to do what the teacher does there, puts the networks together and trains them on until they are as
accurate as the first side's were at their end, or for as many steps. A third side is that without
the blocks: what it saves, the teacher's own layers save. Told are steps and seconds of CPU of all
sides, the blocks' and the teacher's own among them, and accuracies.

A line of ``networks.jsonl`` each is on the disk before the next begins: the same command goes on
where it was ended. ``results.json`` has the sums.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from search_shared import Documents

from tvm_fusionx.output_file import new_file
from tvm_fusionx.records.line_file import LineFile, Words
from tvm_fusionx.search.composability import (
    TrainedBlock,
    assemble,
    shared_blocks,
    train_block,
)
from tvm_fusionx.search.space import Candidate, Space, candidate_key
from tvm_fusionx.search.space_file import parse_space
from tvm_fusionx.search.torch_network import TorchNetwork, torch_network

# Networks that can learn from one teacher, layer by layer.
SPACE: dict[str, Any] = {
    "family": "transformer",
    "tokens": 64,
    "vocabulary": 4000,
    "classes": 20,
    "layers": [2],
    "hidden": [64],
    "heads": [2, 4],
    "feed_forward": [32, 64, 128],
}
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 0.01
# How often it is asked whether a network is accurate enough.
JUDGED_EVERY = 50
WORDS = Words(
    thing="networks put together",
    user="one process that trains",
    other="Give another folder, or the numbers and the seed that it is of.",
    full="Make room or give another folder; all networks before are kept.",
)
FORMAT_VERSION = 2


def largest(space: Space) -> Candidate:
    """Return the teacher: the largest option of every decision."""
    return space.walk(lambda _, options: max(options))


def explored(space: Space, count: int, seed: int) -> list[Candidate]:
    """Return different networks of the space, without the teacher."""
    generator = random.Random(seed)
    teacher = candidate_key(largest(space))
    found: dict[str, Candidate] = {}
    while len(found) < min(count, space.size() - 1):
        candidate = space.sample(generator)
        if candidate_key(candidate) != teacher:
            found[candidate_key(candidate)] = candidate
    return list(found.values())


def train(
    network: TorchNetwork, documents: Documents, steps: int, enough: float | None = None
) -> dict[str, Any]:
    """Train a network, until it is accurate enough where that is asked for, and tell what it took.

    The rate is one all along, so that a training may end at any step.
    """
    optimiser = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    seconds, curve = 0.0, []
    for step in range(steps):
        if step % JUDGED_EVERY == 0 and enough is not None:
            curve.append(_accuracy(network, documents))
            if curve[-1] >= enough:
                return {"steps": step, "cpu_seconds": seconds, "accuracy": curve[-1]}
        network.train()
        began = time.process_time()
        optimiser.zero_grad()
        documents.loss(network, step).backward()
        optimiser.step()
        seconds += time.process_time() - began
    return {"steps": steps, "cpu_seconds": seconds, "accuracy": _accuracy(network, documents)}


def _accuracy(network: TorchNetwork, documents: Documents) -> float:
    network.eval()
    return documents.accuracy(network)


def teacher_of(
    space: Space, folder: Path, documents: Documents, steps: int
) -> tuple[TorchNetwork, dict[str, Any]]:
    """Return the trained teacher and what it took, from the folder where it lies there."""
    network = torch_network(largest(space))
    weights, note = folder / "teacher.npz", folder / "teacher.json"
    told = {"space": space.digest(), "asked_steps": steps}
    if note.is_file():
        known = json.loads(note.read_text(encoding="utf-8"))
        if told.items() <= known.items():
            with np.load(weights, allow_pickle=False) as file:
                network.load_arrays({name: file[name] for name in file.files})
            return network, known
    took = {**told, **train(network, documents, steps)}
    with new_file(weights) as scratch, scratch.open("wb") as file:
        np.savez(file, **network.arrays())
    with new_file(note) as scratch:
        scratch.write_text(json.dumps(took) + "\n", encoding="utf-8")
    return network, took


def train_blocks(
    candidates: Sequence[Candidate],
    teacher: TorchNetwork,
    documents: Documents,
    options: argparse.Namespace,
) -> tuple[list[TrainedBlock], float]:
    """Return the blocks that are worth it, trained, and their seconds of CPU."""
    began = time.process_time()
    found = []
    for number, block in enumerate(
        shared_blocks(candidates, largest(parse_space(SPACE)), options.blocks)
    ):
        batches = (documents.batch(step)[0] for step in range(options.block_steps))
        found.append(train_block(block, teacher, batches, seed=number))
    return found, time.process_time() - began


def main(words: list[str] | None = None) -> None:
    """Train all sides, and write what they took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--networks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=600, help="of each network trained anew")
    parser.add_argument("--block-steps", type=int, default=100)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    options.output.mkdir(parents=True, exist_ok=True)
    space = parse_space(SPACE)
    documents = Documents(options.data, int(space.fixed["tokens"]))
    candidates = explored(space, options.networks, options.seed)
    teacher, teaching = teacher_of(space, options.output, documents, options.steps)
    print(f"teacher: {teaching['accuracy']:.2%}", flush=True)
    # Of no time beside the networks: trained again by a command that goes on.
    blocks, block_seconds = train_blocks(candidates, teacher, documents, options)
    rows = _rows(options, space, candidates, teacher, blocks, documents)
    report = summary(rows, blocks, block_seconds, options.block_steps)
    report |= {"teacher": teaching, "steps": options.steps, "seed": options.seed, "rows": rows}
    with new_file(options.output / "results.json") as scratch:
        scratch.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: value for name, value in report.items() if name != "rows"}, indent=1))


def _rows(
    options: argparse.Namespace,
    space: Space,
    candidates: Sequence[Candidate],
    teacher: TorchNetwork,
    blocks: Sequence[TrainedBlock],
    documents: Documents,
) -> list[dict[str, Any]]:
    """Return what all sides took for each network, those of before from the file."""
    header = {
        "fusionx_composed_networks": FORMAT_VERSION,
        "space": space.digest(),
        "options": [options.steps, options.block_steps, options.blocks, options.seed],
    }
    rows: dict[str, dict[str, Any]] = {}
    lines = LineFile(options.output / "networks.jsonl", header, WORDS)
    try:
        lines.read(lambda row: rows.update({row["key"]: row}))
        for number, candidate in enumerate(candidates):
            key = candidate_key(candidate)
            if key in rows:
                continue
            anew = train(torch_network(candidate, number), documents, options.steps)
            made = assemble(candidate, torch_network(candidate, number), teacher, blocks)
            bare = assemble(candidate, torch_network(candidate, number), teacher, [])
            composed, inherited = (
                train(each.network, documents, options.steps, anew["accuracy"])
                for each in (made, bare)
            )
            origins = [made.from_teacher, made.from_blocks, made.fresh]
            row = {"key": key, "choices": candidate["choices"], "layers_from": origins}
            row |= {"anew": anew, "composed": composed, "inherited": inherited}
            lines.append(row)
            rows[key] = row
            print(f"{len(rows)} of {len(candidates)}: {row}", flush=True)
    finally:
        lines.close()
    return [rows[candidate_key(each)] for each in candidates]


def summary(
    rows: Sequence[dict[str, Any]],
    blocks: Sequence[TrainedBlock],
    block_seconds: float,
    block_steps: int,
) -> dict[str, Any]:
    """Return steps, seconds and accuracies of all sides."""

    def total(side: str, what: str) -> float:
        return sum(row[side][what] for row in rows)

    anew, composed = total("anew", "cpu_seconds"), total("composed", "cpu_seconds")
    return {
        "networks": len(rows),
        "blocks": [[layer.symbol for layer in each.block.layers] for each in blocks],
        "block_losses": [[each.first_loss, each.last_loss] for each in blocks],
        "block_steps": block_steps * len(blocks),
        "block_cpu_seconds": block_seconds,
        "steps_anew": total("anew", "steps"),
        "steps_composed": total("composed", "steps"),
        "steps_inherited": total("inherited", "steps"),
        "cpu_seconds_anew": anew,
        "cpu_seconds_composed": composed + block_seconds,
        "cpu_seconds_inherited": total("inherited", "cpu_seconds"),
        "accuracy_anew": total("anew", "accuracy") / len(rows),
        "accuracy_composed": total("composed", "accuracy") / len(rows),
        "accuracy_inherited": total("inherited", "accuracy") / len(rows),
        "reached": sum(row["composed"]["accuracy"] >= row["anew"]["accuracy"] for row in rows),
    }


if __name__ == "__main__":
    main()
