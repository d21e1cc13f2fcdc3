"""Hold models in half precision to float32, and time them beside it.

    python benchmarks/half_precision.py FOLDER [NAME...] [--repeat 200] [--json OUT] [--board]

FOLDER holds NAME.onnx, in float32, as `fusionx zoo export` writes it. Each is built as it is; with
precision="float16"; and as a float16 file, which is made here: initialisers, constants and what
nodes compute become halves, and Cast nodes keep the inputs and outputs float32. `fx.verify` judges
both. A row says its verdict, the largest difference from float32 outputs relative to the largest of
them, and the median time as a share of that of float32, all sides taking turns. With --board they
are built for a Cortex-A76 and run on an emulated Arm board, where only the differences count.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tvm_fusionx as fx
from tests.half_models import in_halves
from tvm_fusionx.devices import export_kernel
from tvm_fusionx.devices.emulation import emulate
from tvm_fusionx.inputs import inputs_of, random_inputs
from tvm_fusionx.report.bench.plain_tvm import load, run_once, set_inputs
from tvm_fusionx.report.bench.timing import threads_apart, time_interleaved
from tvm_fusionx.tuning.bench import Bench

TARGET = "llvm -mcpu=native"
MODELS = ("mobilenet-v2", "resnet18", "minilm")
SINGLE, PRECISION, FILE = "float32", 'precision="float16"', "float16 file"

CORE = "cortex-a76"
BOARD_SECONDS = 900.0
# Rounding at every block moves these models' outputs by a few thousandths.
BOARD_TOLERANCE = 1e-2

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


def sides_of(path: Path, out: Path) -> dict[str, tuple[Any, Any, str | None]]:
    """Return each side's module, parameters and precision; write the float16 file."""
    half_path = out / f"{path.stem}.float16.onnx"
    onnx.save(in_halves(onnx.load(path), casts_ends=True), half_path)
    mod, params = fx.from_onnx(path)
    return {
        SINGLE: (mod, params, None),
        PRECISION: (mod, params, "float16"),
        FILE: (*fx.from_onnx(half_path), None),
    }


def measure_on_board(path: Path, out: Path, bench: Bench) -> dict[str, float]:
    """Return how far each side's outputs on an Arm board are from float32's on this machine."""
    sides = sides_of(path, out)
    mod, params, _ = sides[SINGLE]
    arrays = arrays_for(mod, params)
    wanted = run_once(fx.build(mod, TARGET, params), arrays)
    found = {}
    for side, (each, given, precision) in sides.items():
        library = fx.build(each, bench.device.tvm_target(), given, precision=precision)
        session = bench.session()
        name = f"{path.stem}_{len(found)}.so"
        executor = load(
            session.load(export_kernel(library, out / name, bench.device)), session.context
        )
        set_inputs(executor, arrays)
        executor.run()
        outputs = [executor.get_output(at).numpy() for at in range(executor.get_num_outputs())]
        found[side] = _difference(outputs, wanted)
    return found


def measure(path: Path, out: Path, repeat: int) -> dict[str, Any]:
    """Build, verify and time one model; return what is known of each side."""
    sides = sides_of(path, out)
    arrays = arrays_for(*sides[SINGLE][:2])
    libraries = {
        side: fx.build(mod, TARGET, params, precision=precision)
        for side, (mod, params, precision) in sides.items()
    }
    wanted = run_once(libraries[SINGLE], arrays)
    reports = {
        side: fx.verify(mod, params, arrays, TARGET, precision=precision)
        for side, (mod, params, precision) in sides.items()
        if side != SINGLE
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


def _print_board(paths: list[Path], out: Path) -> int:
    print(f"| model | on an emulated {CORE} | difference |")
    print("|---|---|---:|")
    furthest = 0.0
    with emulate() as emulation:
        target = f"{emulation.device.target} -mcpu={CORE}"
        device = replace(emulation.device, target=target, session_timeout_seconds=BOARD_SECONDS)
        with Bench(device) as bench:
            for path in paths:
                for side, difference in measure_on_board(path, out, bench).items():
                    print(f"| {path.stem} | {side} | {difference:.1e} |", flush=True)
                    furthest = max(furthest, difference)
    return int(furthest > BOARD_TOLERANCE)


def main() -> int:
    """Run the models and return 0 when all verdicts are right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=MODELS)
    parser.add_argument("--repeat", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("out/half_precision"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--board", action="store_true", help="on an emulated Arm board instead")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    fx.threads()
    paths = [arguments.folder / f"{name}.onnx" for name in arguments.names]
    if arguments.board:
        return _print_board(paths, arguments.out)
    print("| model | side | ms | of float32 | difference | weights MB | verified |")
    print("|---|---|---:|---:|---:|---:|---|")
    found: dict[str, Any] = {}
    for path in paths:
        name, started = path.stem, time.perf_counter()
        found[name] = measure(path, arguments.out, arguments.repeat)
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
