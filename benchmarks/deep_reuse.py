"""What reusing products of similar rows does to a trained network on real pictures.

    python benchmarks/fashion_networks.py FOLDER resnet
    python benchmarks/deep_reuse.py FOLDER [NETWORK ...] [--batch 1 16] [--across-calls]
        [--out OUT.json] [--quick]

For each layer: the way that calibration chooses, the products that it saves, the multiply-adds of
its hashing, how far its results move, and the estimated cycles of hashing, of multiplying and of
adding, beside those of our own fused convolution (minimal filtering included) for each target. For
the whole network, with every layer made to reuse: its accuracy on pictures that nothing was chosen
on. Rows of a batch share clusters; with --across-calls those of other pictures are kept, and layers
are judged on pictures that none was kept of. Nothing is timed: counts and accuracy do not depend on
what else a machine does.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import fashion_networks

from tvm_fusionx.compress.quantize.prepare import prepared_graph
from tvm_fusionx.compress.quantize.runner import OWN, default_engine, runner
from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.compress.quantize.score import top1
from tvm_fusionx.compress.similar.candidates import Candidate, best_of, candidates_of
from tvm_fusionx.compress.similar.layers import Layer, find_layers
from tvm_fusionx.compress.similar.reuse import LEAST_GAIN, layer_inputs, with_choices
from tvm_fusionx.output_file import new_file
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.reuse.cost import Found, reuse_cycles
from tvm_fusionx.schedules import resolve_target

# One with wide vectors, and a phone's.
TARGETS = {
    "zen4": "llvm -mcpu=znver4 -num-cores=2",
    "cortex-a76": "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=4",
}
CHOSEN_FOR = "zen4"
ERRORS = (0.05, 0.15, 0.3)
BATCHES = (1, 16)
# Batches that are looked at; pictures that judge.
LOOKED_AT, JUDGED = 4, 2000
# Where calls share clusters: those of half of them.
LOOKED_AT_FOR_CALLS = 16
QUICK_ERRORS, QUICK_JUDGED = (0.3,), 32


@dataclass(frozen=True)
class Row:
    """A layer at a bound of its error."""

    network: str
    batch: int
    max_error: float
    layer: str
    rows: int
    columns: int
    channels: int
    length: int
    bits: int
    saved: float
    hashing: float
    error: float
    gains: dict[str, float]
    shares: dict[str, tuple[float, float, float]]
    """For each target, cycles of hashing, multiplying and adding, relative to all products."""

    @property
    def products(self) -> int:
        """Multiply-adds of all products."""
        return self.rows * self.columns * self.channels


def _row(
    network: str, batch: int, error: float, layer: Layer, found: Candidate, cpus: dict[str, Cpu]
) -> Row:
    reused = found.layer
    rows = reused.images * reused.pixels
    left = found.computed_share * rows * reused.segment_count
    # What is kept was multiplied before: singles alone are left.
    was = Found(0, left) if found.choice.kept is not None else Found(left, 0)
    gains, shares = {}, {}
    for name, cpu in cpus.items():
        cycles = reuse_cycles(reused, was, cpu)
        dense = layer.dense_cycles(cpu)
        gains[name] = dense / cycles.total
        parts = (cycles.hashing, cycles.multiplying, cycles.adding)
        shares[name] = (parts[0] / dense, parts[1] / dense, parts[2] / dense)
    choice = found.choice
    return Row(
        *(network, batch, error, layer.name, rows, reused.columns, reused.channels),
        *(choice.length, choice.bits, 1 - found.computed_share, found.hashing_share),
        *(found.error, gains, shares),
    )


def _together(rows: list[Row]) -> dict[str, Any]:
    """Return what all layers of a network do together."""
    products = sum(row.products for row in rows)
    saved = sum(row.saved * row.products for row in rows) / products
    hashing = sum(row.hashing * row.products for row in rows) / products
    pay = {name: [row.layer for row in rows if row.gains[name] >= LEAST_GAIN] for name in TARGETS}
    return {"saved": saved, "hashing": hashing, "layers_that_pay": pay}


def run_network(
    path: Path, name: str, batch: int, *, quick: bool, across_calls: bool = False
) -> tuple[list[Row], list[dict[str, Any]]]:
    """Return the rows of a network's layers, and what the whole of it does."""
    target = resolve_target(TARGETS[CHOSEN_FOR])
    cpus = {key: describe_cpu(resolve_target(text)) for key, text in TARGETS.items()}
    graph = prepared_graph(path)
    looked_at = LOOKED_AT_FOR_CALLS if across_calls else LOOKED_AT
    train, _ = fashion_networks.pictures("train", looked_at * batch)
    inputs = Samples(list(train.reshape(looked_at, batch, *train.shape[1:])), graph.inputs)
    (given,) = (info.name for info in graph.inputs)
    shape = {given: (batch, *train.shape[1:])}
    layers = find_layers(graph, shape, target, cpus[CHOSEN_FOR])
    able = [layer for layer in layers if layer.reason is None]
    say = print if quick else _quiet
    seen = layer_inputs(graph, layers, inputs, default_engine(), say, looked_at)
    tried = {}
    for layer in able:
        bits = (4, 8) if quick else (3, 4, 6, 8, 10, 12)
        cpu = cpus[CHOSEN_FOR]
        more = {"per_batch": batch > 1 and not across_calls, "bits": bits}
        more["across_calls"] = across_calls
        tried[layer.name] = list(candidates_of(layer, seen[layer.tensor], cpu, **more))
        print(f"{name}, batch {batch}: {layer.name}, {len(tried[layer.name])} ways", flush=True)
    count = QUICK_JUDGED if quick else JUDGED
    images, labels = fashion_networks.pictures("t10k", count)
    parts = range(0, count - batch + 1, batch)
    judged = [({given: images[at : at + batch]}, labels[at : at + batch]) for at in parts]
    exact = top1(runner(graph.model, OWN), judged)
    rows, whole = [], []
    for error in QUICK_ERRORS if quick else ERRORS:
        chosen = {}
        mine = []
        for layer in able:
            best = best_of(tried[layer.name], error)
            if best is None or best.error > error:
                continue
            chosen[layer.name] = best.choice
            mine.append(_row(name, batch, error, layer, best, cpus))
        reused = top1(runner(with_choices(graph.model, chosen, chosen), OWN), judged)
        told = {"network": name, "batch": batch, "max_error": error, "layers": len(able)}
        told |= {
            "across_calls": across_calls,
            "reusing": len(mine),
            "accuracy": reused,
            "exact_accuracy": exact,
        }
        whole.append({**told, **(_together(mine) if mine else {})})
        rows += mine
        print(json.dumps(whole[-1]), flush=True)
    return rows, whole


def _quiet(stage: str) -> None:
    """Say nothing."""


def table(whole: list[dict[str, Any]]) -> str:
    """Return what whole networks do, as Markdown."""
    heads = ["network", "batch", "error of a layer", "layers", "saved", "hashing", "accuracy"]
    heads += ["exact", *(f"pay on {name}" for name in TARGETS)]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for each in whole:
        cells = [each["network"], each["batch"], each["max_error"]]
        cells += [f"{each['reusing']} of {each['layers']}"]
        cells += [f"{each.get('saved', 0):.1%}", f"{each.get('hashing', 0):.1%}"]
        cells += [f"{each['accuracy']:.4f}", f"{each['exact_accuracy']:.4f}"]
        pay = each.get("layers_that_pay", {})
        cells += [len(pay.get(name, ())) for name in TARGETS]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    """Run the networks of a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="*", default=["resnet"])
    parser.add_argument("--batch", nargs="*", type=int, default=list(BATCHES))
    parser.add_argument("--across-calls", action="store_true", help="clusters are kept")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    np.seterr(all="raise", under="ignore")
    rows, whole = [], []
    for name in given.networks:
        path = given.folder / f"fashion-{name}.onnx"
        if not path.exists():
            raise SystemExit(f"no {path}: python benchmarks/fashion_networks.py {given.folder}")
        for batch in given.batch:
            found, told = run_network(
                path, name, batch, quick=given.quick, across_calls=given.across_calls
            )
            rows += found
            whole += told
    if given.out is not None:
        with new_file(given.out) as scratch:
            out = {"targets": TARGETS, "whole": whole, "rows": [asdict(row) for row in rows]}
            scratch.write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")
    print(table(whole))


if __name__ == "__main__":
    main()
