"""Time quantized models: ours, and every runtime that reads the same file, taking turns.

    python benchmarks/int8.py [NAME...] [--out out/int8] [--repeat 100] [--ours] [--json FILE]

NAME is a model of the zoo; by default those that ONNX Runtime's tool quantizes. Each is exported,
quantized by that tool (per channel, unsigned activations, calibrated on seeded random inputs) and
compiled, unless OUT has it already; what is measured are our int8 and float32 builds, ONNX
Runtime's two, and the int8 file in OpenVINO, MNN, ncnn and LiteRT; who does not take it is told
on stderr. --ours times our two sides alone. A row has the median milliseconds, our float time over
our int8 time, the best other int8 over ours, and the accuracy: the largest difference from ONNX
Runtime's float model, relative to its largest output, and how many rows have the same largest
element. The exit code is 1 where our int8 is slower than our float.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx.output_file import new_file
from tvm_fusionx.report.bench.timing import (
    Latency,
    describe_failure,
    threads_apart,
    time_interleaved,
)
from tvm_fusionx.report.peers import PreparedPeer, prepare_peer

TARGET = "llvm -mcpu=native"
CALIBRATION_RUNS = 3
DEFAULT_REPEAT = 100
# Models that ONNX Runtime's tool quantizes as they are, from the quickest to the slowest.
MODELS = (
    *("mobilenet-v3", "mobilenet-v2", "mobilenet-v1", "efficientnet-b0", "ppocr-det", "resnet18"),
    *("minilm", "resnet50", "yolo-v8n", "distilbert", "vgg16", "unet", "bert-base"),
)

INT8, FLOAT32 = "int8", "float32"
OURS = {INT8: "ours int8", FLOAT32: "ours float32"}
ORT_FLOAT = "ort float32"
# Read the quantized file, or convert it.
PEERS = ("ort", "openvino", "mnn", "ncnn", "litert")
# How far apart two medians of equal sides lie on a quiet machine.
EQUAL = 1.02

# Products with weights only: a softmax and a norm in 8 bits destroy a transformer's output.
TRANSFORMER_OPTIONS = {
    "op_types_to_quantize": ["MatMul", "Gemm"],
    "extra_options": {"MatMulConstBOnly": True},
}


class Calibration(CalibrationDataReader):  # type: ignore[misc]
    """Random inputs of the types and ranges of given ones."""

    def __init__(self, like: Mapping[str, np.ndarray]) -> None:
        generator = np.random.default_rng(0)
        self._feeds: Iterator[dict[str, np.ndarray]] = iter(
            [
                {name: _random_like(array, generator) for name, array in like.items()}
                for _ in range(CALIBRATION_RUNS)
            ]
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next inputs."""
        return next(self._feeds, None)


def _random_like(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    if array.dtype.kind == "f":
        return generator.normal(array.mean(), array.std(), array.shape).astype(array.dtype)
    if array.max() <= 1:  # a mask
        return array
    return generator.integers(0, array.max() + 1, array.shape).astype(array.dtype)


def inputs_of(out: Path, name: str) -> dict[str, np.ndarray]:
    """Return a model's inputs, which are written with it."""
    with np.load(out / f"{name}.inputs.npz") as stored:
        return {key: stored[key] for key in stored.files}


def export(out: Path, name: str) -> Path:
    """Write the float model and its inputs, and return its path."""
    path = out / f"{name}.{FLOAT32}.onnx"
    if not path.exists():
        zoo.export(name, path)
        with new_file(out / f"{name}.inputs.npz") as scratch, scratch.open("wb") as file:
            np.savez(file, **zoo.sample_inputs(name))
    return path


def quantize(out: Path, name: str) -> Path:
    """Write the quantized model, and return its path."""
    original, path = export(out, name), out / f"{name}.{INT8}.onnx"
    if path.exists():
        return path
    cleaned, scratch = out / f"{name}.cleaned.onnx", out / f"{name}.{INT8}.part"
    quant_pre_process(original, cleaned, skip_symbolic_shape=True)
    counts = Counter(node.op_type for node in onnx.load(cleaned).graph.node)
    # A detector of convolutions may have a softmax at its end.
    is_transformer = counts["Softmax"] > 0 and counts["MatMul"] + counts["Gemm"] > counts["Conv"]
    quantize_static(
        cleaned,
        scratch,
        Calibration(inputs_of(out, name)),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        **(TRANSFORMER_OPTIONS if is_transformer else {}),
    )
    cleaned.unlink()
    os.replace(scratch, path)
    return path


def compiled(out: Path, name: str, kind: str) -> Path:
    """Build the model of one kind, unless that was done, and return the library's path."""
    path = out / f"{name}.{kind}.so"
    if not path.exists():
        source = quantize(out, name) if kind == INT8 else export(out, name)
        shapes = {key: value.shape for key, value in inputs_of(out, name).items()}
        started = time.perf_counter()
        mod, params = fx.from_onnx(source, shape=shapes)
        with new_file(path) as scratch:
            # The linker goes by the ending.
            linked = scratch.with_name(f"{scratch.name}.so")
            fx.build(mod, TARGET, params).export_library(str(linked))
            os.replace(linked, scratch)
        print(f"{name} {kind}: built in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return path


def _ours(path: Path, inputs: Mapping[str, np.ndarray]) -> Any:
    executor = graph_executor.GraphModule(tvm.runtime.load_module(str(path))["default"](tvm.cpu()))
    for key, value in inputs.items():
        executor.set_input(key, value)
    return executor


def _peers(
    out: Path, name: str, inputs: Mapping[str, np.ndarray], threads: int, names: Sequence[str]
) -> tuple[dict[str, PreparedPeer], dict[str, str]]:
    """Return what was prepared, by side, and why the others were not."""
    sides = [(f"{peer} int8", peer, quantize(out, name)) for peer in names]
    if "ort" in names:
        sides.append((ORT_FLOAT, "ort", export(out, name)))
    prepared: dict[str, PreparedPeer] = {}
    failed: dict[str, str] = {}
    for side, peer, model in sides:
        try:
            prepared[side] = prepare_peer(peer, model, inputs, threads)
        except Exception as error:  # another runtime may raise anything
            failed[side] = describe_failure(error)
    return prepared, failed


def measure(out: Path, name: str, repeat: int, peers: Sequence[str]) -> dict[str, Any]:
    """Return the latencies of all sides by name, what failed, and how accurate two of them are."""
    paths = {kind: compiled(out, name, kind) for kind in OURS}
    inputs, threads = inputs_of(out, name), fx.threads()
    ours = {OURS[kind]: _ours(path, inputs) for kind, path in paths.items()}
    prepared, failures = _peers(out, name, inputs, threads, peers)
    runs: dict[str, Callable[[], Any]] = {side: executor.run for side, executor in ours.items()}
    runs |= {side: peer.run for side, peer in prepared.items()}
    made = {}
    for side, run in list(runs.items()):
        try:
            result = run()
        except Exception as error:
            failures[side] = describe_failure(error)
            del runs[side]
            continue
        if side in prepared:
            made[side] = prepared[side].outputs(result)[0]
        else:
            made[side] = ours[side].get_output(0).numpy()
    with threads_apart(threads):
        latencies, failed = time_interleaved(runs, repeat)
    exact = made.get(ORT_FLOAT, made[OURS[FLOAT32]])
    accuracy = {side: _accuracy(made[side], exact) for side in made if side.endswith(INT8)}
    return {
        "model": name,
        "threads": threads,
        "latencies": {side: each.to_json() for side, each in latencies.items()},
        "gains": gains(latencies),
        "accuracy": accuracy,
        "failures": failures | failed,
    }


def gains(latencies: Mapping[str, Latency]) -> dict[str, float | None]:
    """Return float over int8 of ours, and the best other int8 over ours."""
    int8 = latencies[OURS[INT8]].median
    others = [
        each.median
        for side, each in latencies.items()
        if side.endswith(INT8) and side != OURS[INT8]
    ]
    return {
        "float32 / int8": latencies[OURS[FLOAT32]].median / int8,
        "best other / ours": min(others) / int8 if others else None,
    }


def _accuracy(found: np.ndarray, exact: np.ndarray) -> str:
    if found.shape != exact.shape:
        return f"shape {found.shape}"
    worst = np.abs(found - exact).max() / np.abs(exact).max()
    agree = (found.argmax(-1) == exact.argmax(-1)).mean()
    return f"{worst:.3f}, {agree:.0%}"


def row_of(result: Mapping[str, Any], sides: Sequence[str]) -> str:
    """Return a result as a row of the table."""
    taken = [result["latencies"].get(side) for side in sides]
    cells = ["-" if each is None else f"{each['median']:.2f}" for each in taken]
    cells += ["-" if each is None else f"{each:.2f}" for each in result["gains"].values()]
    cells += [result["accuracy"].get(side, "-") for side in (OURS[INT8], "ort int8")]
    return f"| {result['model']} | " + " | ".join(cells) + " |"


def _mean(values: Sequence[float]) -> str:
    return f"{math.exp(sum(map(math.log, values)) / len(values)):.2f}" if values else "-"


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=MODELS)
    parser.add_argument("--out", type=Path, default=Path("out/int8"))
    parser.add_argument("--repeat", type=int, default=DEFAULT_REPEAT, help="timed runs of a side")
    parser.add_argument("--ours", action="store_true", help="time our two sides alone")
    parser.add_argument("--json", type=Path, help="where to write all results")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    peers = () if arguments.ours else PEERS
    sides = [*OURS.values(), *(f"{peer} int8" for peer in peers)]
    sides += [ORT_FLOAT] if peers else []
    heads = [*sides, "float32 / int8", "best other / ours", "ours from float", "ORT from float"]
    print("| model | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|")
    results = []
    for name in arguments.names:
        result = measure(arguments.out, name, arguments.repeat, peers)
        results.append(result)
        print(row_of(result, sides), flush=True)
        for side, why in result["failures"].items():
            print(f"{name}: {side}: {why}", file=sys.stderr)
    if arguments.json is not None:
        with new_file(arguments.json) as scratch:
            scratch.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    own = [result["gains"]["float32 / int8"] for result in results]
    others = [each for r in results if (each := r["gains"]["best other / ours"]) is not None]
    print(f"geometric means: float32 / int8 {_mean(own)}, best other / ours {_mean(others)}")
    slower = [r["model"] for r, gain in zip(results, own, strict=True) if gain * EQUAL < 1]
    if slower:
        print(f"int8 is slower than float32: {', '.join(slower)}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
