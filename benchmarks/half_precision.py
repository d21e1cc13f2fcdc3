"""Hold models in half precision to float32, and time them beside it.

    python benchmarks/half_precision.py FOLDER [NAME...] [--repeat 200] [--json OUT]

FOLDER holds NAME.onnx, in float32, as `fusionx zoo export` writes it. Each is built as it is; with
precision="float16"; and as a float16 file, which is made here: initialisers, constants and what
nodes compute become halves, and Cast nodes keep the inputs and outputs float32. `fx.verify` judges
both. A row says its verdict, the largest difference from float32 outputs relative to the largest of
them, and the median time as a share of that of float32, all sides taking turns.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tvm_fusionx as fx
from tests.half_models import in_halves
from tvm_fusionx.inputs import inputs_of, random_inputs
from tvm_fusionx.report.bench.plain_tvm import load, run_once, set_inputs
from tvm_fusionx.report.bench.timing import threads_apart, time_interleaved

TARGET = "llvm -mcpu=native"
MODELS = ("mobilenet-v2", "resnet18", "minilm")
SINGLE, PRECISION, FILE = "float32", 'precision="float16"', "float16 file"

# Of an attention mask's ones so many, at the end, are padding.
PADDED_SHARE = 0.25


def arrays_for(mod: Any, params: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return random inputs; the end of an attention mask is padding."""
    arrays = random_inputs(inputs_of(mod, params))
    for name, array in arrays.items():
        if "mask" in name:
            array[...] = 1
            array[..., int(array.shape[-1] * (1 - PADDED_SHARE)) :] = 0
    return arrays


def measure(path: Path, out: Path, repeat: int) -> dict[str, Any]:
    """Build, verify and time one model; return what is known of each side."""
    half_path = out / f"{path.stem}.float16.onnx"
    onnx.save(in_halves(onnx.load(path), casts_ends=True), half_path)
    mod, params = fx.from_onnx(path)
    half_mod, half_params = fx.from_onnx(half_path)
    arrays = arrays_for(mod, params)
    libraries = {
        SINGLE: fx.build(mod, TARGET, params),
        PRECISION: fx.build(mod, TARGET, params, precision="float16"),
        FILE: fx.build(half_mod, TARGET, half_params),
    }
    wanted = run_once(libraries[SINGLE], arrays)
    reports = {
        PRECISION: fx.verify(mod, params, arrays, TARGET, precision="float16"),
        FILE: fx.verify(half_mod, half_params, arrays, TARGET),
    }
    executors = {side: load(library) for side, library in libraries.items()}
    for executor in executors.values():
        set_inputs(executor, arrays)
    with threads_apart(fx.threads()):
        runs = {side: executor.run for side, executor in executors.items()}
        latencies, failures = time_interleaved(runs, repeat)
    if failures:
        raise RuntimeError(f"{path.stem}: {failures}")
    return {
        side: {
            "median_ms": latencies[side].median,
            "share_of_float32": latencies[side].median / latencies[SINGLE].median,
            "difference": _difference(run_once(library, arrays), wanted),
            "bytes_of_weights": sum(
                each.numpy().nbytes if each.dtype != "bfloat16" else 2 * each.numpy().size
                for each in library.get_params().values()
            ),
            "ok": reports[side].ok if side in reports else None,
            "verdict": reports[side].summary() if side in reports else "",
        }
        for side, library in libraries.items()
    }


def _difference(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    if not all(np.isfinite(array).all() for array in found):
        return float("inf")
    return max(
        float(np.abs(one - other).max() / (np.abs(other).max() or 1.0))
        for one, other in zip(found, wanted, strict=True)
    )


def main() -> int:
    """Run the models and return 0 when all verdicts are right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=MODELS)
    parser.add_argument("--repeat", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("out/half_precision"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    fx.threads()
    print("| model | side | ms | of float32 | difference | weights MB | verified |")
    print("|---|---|---:|---:|---:|---:|---|")
    found: dict[str, Any] = {}
    for name in arguments.names:
        started = time.perf_counter()
        found[name] = measure(arguments.folder / f"{name}.onnx", arguments.out, arguments.repeat)
        for side, row in found[name].items():
            verdict = {None: "", True: "ok", False: "WRONG"}[row["ok"]]
            print(
                f"| {name} | {side} | {row['median_ms']:.2f} | {row['share_of_float32']:.2f} "
                f"| {row['difference']:.1e} | {row['bytes_of_weights'] / 1e6:.1f} | {verdict} |",
                flush=True,
            )
        for row in found[name].values():
            if row["verdict"]:
                print(f"    {row['verdict']}", file=sys.stderr)
        print(f"    {name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(any(row["ok"] is False for rows in found.values() for row in rows.values()))


if __name__ == "__main__":
    raise SystemExit(main())
