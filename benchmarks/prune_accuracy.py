"""What pruning costs on real data: each structure at each rate, beside unstructured and filters.

    python benchmarks/prune_accuracy.py OUT [vgg resnet c3d transformer lstm]
        [--ways "block 8x,filter 8x"] [--method gradual] [--threads 1] [--quick]
        [--steps DENSE,PRUNE,RETRAIN] [--results benchmarks/results/prune_accuracy.json]
    python benchmarks/prune_accuracy.py --table

A dense network is trained first; each way then prunes it and trains as many steps, taught by it.
The row *dense* has been trained on for as many steps too, so that a way is not praised for its
training. Rows go to RESULTS as they are made, each with its setting; what has one there of the same
setting is not run again, by whomever it was made. In OUT lie networks and checkpoints, from which a
run that was stopped goes on. --table prints the rows of RESULTS. The networks and their data:
prune_networks.py.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import prune_networks
import torch
from prune_networks import FAMILIES, Family, Split

import tvm_fusionx as fx
from tvm_fusionx.compress.prune.batches import Batches
from tvm_fusionx.compress.prune.read_config import parse_config
from tvm_fusionx.compress.prune.trainer import Trainer
from tvm_fusionx.output_file import make_folder, new_file

SEED = prune_networks.SEED
APART_BATCH = 500
DENSE = "dense"

QUICK_SAMPLES, QUICK_STEPS = 256, 4

RESULTS = Path("benchmarks/results/prune_accuracy.json")
# What makes a row: with one of these changed it is another one.
KEY = ("family", "way", "method", "setting")
# Of what pruning tells, what a row keeps.
KEPT = ("score", "dense_score", "cut_score", "sparsity", "onnx_bytes", "cpu_seconds")


@dataclass(frozen=True)
class Way:
    """A structure at a rate: the words of a configuration."""

    structure: dict[str, Any]
    only_windows: bool = False


def _rate(times: float) -> float:
    return 1 - 1 / times


def _pattern(times: float, group_size: int) -> Way:
    words = {"structure": "pattern", "target_sparsity": _rate(times), "group_size": group_size}
    return Way(words, only_windows=True)


def _plain(structure: str, times: float, **more: Any) -> Way:
    return Way({"structure": structure, "target_sparsity": _rate(times), **more})


WAYS = {
    "pattern 2.25x": _pattern(2.25, 16),
    "pattern and connectivity 8x": _pattern(8, 16),
    "block 8x": _plain("block", 8, block_size=16),
    "block 4x": _plain("block", 4, block_size=16),
    "unstructured 8x": _plain("unstructured", 8),
    "filter 8x": _plain("filter", 8),
    "own pattern 2.25x": _pattern(2.25, 1),
    "own pattern and connectivity 8x": _pattern(8, 1),
    "filter 4x": _plain("filter", 4),
    "filter 2.25x": _plain("filter", 2.25),
    "unstructured 4x": _plain("unstructured", 4),
    "unstructured 2.25x": _plain("unstructured", 2.25),
}
# Of windows; others have none.
WINDOWED = ("vgg", "resnet", "c3d")


@dataclass
class Course:
    """A family with its data at hand, and the functions that training asks for."""

    name: str
    family: Family
    split: Split
    folder: Path
    method: str

    def __post_init__(self) -> None:
        self.batches = Batches(self.split.x, self.split.y, size=self.family.batch, seed=SEED)
        self.seconds = 0.0

    def train(self, module: Any, step: int) -> Any:
        """Return the loss of a batch and the outputs."""
        x, y = self.batches[step]
        if self.family.is_mirrored:
            chosen = torch.rand(len(x)) < 0.5
            x = torch.where(chosen[:, None, None, None], x.flip(-1), x)
        outputs = module(x)
        return torch.nn.functional.cross_entropy(outputs, y), outputs

    def setting(self) -> dict[str, Any]:
        """Return what a result depends on besides the way."""
        family = self.family
        return {
            "dense_steps": family.dense_steps,
            "prune_steps": family.prune_steps,
            "retrain_steps": family.retrain_steps,
            "batch": family.batch,
            "learning_rate": family.learning_rate,
            "samples": len(self.split.x),
            "samples_apart": len(self.split.x_apart),
            "seed": SEED,
        }

    def accuracy(self, module: Any) -> float:
        """Return the share of samples kept apart that are named rightly."""
        parts = zip(
            self.split.x_apart.split(APART_BATCH),
            self.split.y_apart.split(APART_BATCH),
            strict=True,
        )
        right = [int((module(x).argmax(1) == y).sum()) for x, y in parts]
        return sum(right) / len(self.split.y_apart)

    def training(self, prune_steps: int, retrain_steps: int, **more: Any) -> dict[str, Any]:
        """Return the words of a training."""
        words = {"prune_steps": prune_steps, "retrain_steps": retrain_steps, "seed": SEED}
        rate = {"learning_rate": self.family.learning_rate, "weight_decay": 0.01}
        return {**words, **rate, "update_every": 20, "checkpoint_every": 100, **more}

    def trained(self, module: Any, steps: int, name: str, **more: Any) -> float:
        """Train a module that is not pruned; return its accuracy."""
        config = parse_config({"training": self.training(0, steps, **more)})
        checkpoint = self.folder / f"{name}.checkpoint.pt"
        trainer = Trainer(
            *(module, [], config, self.train, self.accuracy, checkpoint, True),
            lambda stage: _say(f"{self.name} {name}: {stage}"),
        )
        trainer.run()
        return trainer.scores["score"]

    def dense(self) -> Any:
        """Return the trained dense network."""
        torch.manual_seed(SEED)
        module = self.family.module()
        self.trained(module, self.family.dense_steps, "before")
        return module.eval()

    def run(self, way: str, dense: Any) -> dict[str, Any]:
        """Return what became of a way."""
        more = {"distillation": 0.5, "method": self.method}
        steps = self.family.prune_steps, self.family.retrain_steps
        if way == DENSE:
            return {"score": self.trained(dense, sum(steps), DENSE), "sparsity": 0.0}
        table = {"global_config": WAYS[way].structure, "training": self.training(*steps, **more)}
        output = self.folder / f"{_file(way, self.method)}.onnx"
        result = fx.compress.prune(
            dense,
            config=table,
            train=self.train,
            evaluate=self.accuracy,
            example=(self.split.x[:2],),
            output=output,
            resume=True,
            on_stage=lambda stage: _say(f"{self.name} {way}: {stage}"),
        )
        print(result.text(), flush=True)
        return {**result.to_json(), "onnx_bytes": output.stat().st_size}


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<79}", end="", file=sys.stderr, flush=True)


def _file(way: str, method: str) -> str:
    return way if way == DENSE else f"{way.replace(' ', '-')}-{method}"


def steps_of(text: str) -> tuple[int, int, int]:
    """Return the steps of the dense network, of the schedule, and with the masks fixed."""
    try:
        dense, prune, retrain = (int(each) for each in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: expected DENSE,PRUNE,RETRAIN") from error
    if min(dense, prune, retrain) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected at least one step of each")
    return dense, prune, retrain


def run_family(
    name: str,
    out: Path,
    ways: list[str],
    method: str,
    *,
    quick: bool = False,
    steps: tuple[int, int, int] | None = None,
    results: Path = RESULTS,
) -> list[dict[str, Any]]:
    """Run all ways of a family that have no row of this setting yet; return its rows."""
    family, folder = FAMILIES[name], out / name
    if quick:
        family = replace(family, batch=32)
        steps = QUICK_STEPS, QUICK_STEPS, 2
    if steps is not None:
        counts = dict(zip(("dense_steps", "prune_steps", "retrain_steps"), steps, strict=True))
        family = replace(family, **counts)
        # A few steps must not stand for a run, nor go on from its checkpoint.
        folder = out / "-".join(map(str, steps)) / name
    make_folder(folder)
    split = family.data(out, QUICK_SAMPLES if quick else None)
    course = Course(name, family, split, folder, method)
    setting = course.setting()
    dense: Any = None
    for way in [DENSE, *ways]:
        if way != DENSE and WAYS[way].only_windows and name not in WINDOWED:
            continue
        row = {"family": name, "way": way, "method": method, "setting": setting}
        if any(all(each[key] == row[key] for key in KEY) for each in read(results)):
            continue
        dense = course.dense() if dense is None else dense
        began = time.process_time()
        told = course.run(way, copy.deepcopy(dense))
        told["cpu_seconds"] = time.process_time() - began
        keep(results, row | {key: told[key] for key in KEPT if key in told})
        print(table(_of_setting(results, name, setting)), flush=True)
    return _of_setting(results, name, setting)


def _of_setting(path: Path, family: str, setting: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in read(path) if (row["family"], row["setting"]) == (family, setting)]


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file; none where there is no file."""
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def keep(path: Path, row: dict[str, Any]) -> None:
    """Put a row behind those of a file, in the place of one of the same setting."""
    rows = [each for each in read(path) if any(each[key] != row[key] for key in KEY)]
    make_folder(path.parent)
    with new_file(path) as scratch:
        scratch.write_text(json.dumps([*rows, row], indent=1) + "\n", encoding="utf-8")


def tables(rows: list[dict[str, Any]]) -> str:
    """Return a table for each family and setting, its setting before it."""
    parts = []
    for family, text in dict.fromkeys((r["family"], json.dumps(r["setting"])) for r in rows):
        chosen = [r for r in rows if (r["family"], json.dumps(r["setting"])) == (family, text)]
        told = ", ".join(f"{key} {value}" for key, value in json.loads(text).items())
        parts += [f"{family}: {told}", table(chosen)]
    return "\n\n".join(parts)


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows as a table; drops are from the dense network that was trained as long."""
    dense = next(row["score"] for row in rows if row["way"] == DENSE)
    lines = ["| network | way | zeros | accuracy | drop | right after the cut |"]
    lines.append("|---|---|---:|---:|---:|---:|")
    for row in rows:
        cut = row.get("cut_score")
        cells = (
            row["family"],
            row["way"],
            f"{row['sparsity']:.1%}",
            f"{row['score']:.4f}",
            f"{dense - row['score']:+.4f}",
            "-" if cut is None else f"{cut:.4f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(words: list[str] | None = None) -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", default=Path("out/prune"))
    parser.add_argument("families", nargs="*", default=sorted(FAMILIES))
    parser.add_argument("--ways", default=",".join(WAYS), help="separated by commas")
    parser.add_argument("--method", default="gradual", choices=("one_shot", "gradual", "admm"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it runs")
    parser.add_argument("--steps", type=steps_of, help="DENSE,PRUNE,RETRAIN; the family's own")
    parser.add_argument("--results", type=Path, help=f"{RESULTS}; in OUT with --quick")
    parser.add_argument("--table", action="store_true", help="print the rows that there are")
    given = parser.parse_args(words)
    results = given.results or (given.out / "quick.json" if given.quick else RESULTS)
    if given.table:
        print(tables(read(results)))
        return 0
    ways = given.ways.split(",")
    for word, known in [(f, FAMILIES) for f in given.families] + [(w, WAYS) for w in ways]:
        if word not in known:
            parser.error(f"{word}: expected some of {', '.join(known)}")
    torch.set_num_threads(given.threads)
    for name in given.families:
        run_family(
            *(name, given.out, ways, given.method),
            quick=given.quick,
            steps=given.steps,
            results=results,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
