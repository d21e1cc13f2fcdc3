"""Time quantized models: ours and ONNX Runtime's, in int8 and in float32, taking turns.

    python benchmarks/int8.py prepare FOLDER OUT NAME...
    python benchmarks/int8.py time FOLDER OUT NAME...

FOLDER holds NAME.onnx and NAME.inputs.npz. *prepare* quantizes each model by ONNX Runtime's tool,
calibrated on seeded random inputs, and compiles both models to OUT; *time* runs what is there and
prints one row of a table for each. Accuracy is the largest difference from ONNX Runtime's float
model, relative to its largest output, and whether the largest output of each row is the same one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tvm_fusionx.report.bench.timing import threads_apart, time_interleaved
from tvm_fusionx.report.peers.onnx_runtime import prepare as prepare_onnx_runtime

TARGET = "llvm -mcpu=native"
CALIBRATION_RUNS = 3
SIDES = ("ours int8", "ours float32", "ORT int8", "ORT float32")

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


def inputs_of(folder: Path, name: str) -> dict[str, np.ndarray]:
    """Return a model's stored inputs."""
    with np.load(folder / f"{name}.inputs.npz") as stored:
        return {key: stored[key] for key in stored.files}


def quantize(folder: Path, out: Path, name: str) -> None:
    """Write the quantized model to OUT/NAME.onnx."""
    cleaned = out / f"{name}.cleaned.onnx"
    quant_pre_process(folder / f"{name}.onnx", cleaned, skip_symbolic_shape=True)
    is_transformer = any(node.op_type == "Softmax" for node in onnx.load(cleaned).graph.node)
    quantize_static(
        cleaned,
        out / f"{name}.onnx",
        Calibration(inputs_of(folder, name)),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        **(TRANSFORMER_OPTIONS if is_transformer else {}),
    )


def prepare(folder: Path, out: Path, name: str) -> None:
    """Quantize one model, and compile it and its original."""
    out.mkdir(parents=True, exist_ok=True)
    if not (out / f"{name}.onnx").exists():
        quantize(folder, out, name)
    shapes = {key: value.shape for key, value in inputs_of(folder, name).items()}
    for model, kind in ((out / f"{name}.onnx", "int8"), (folder / f"{name}.onnx", "float32")):
        started = time.perf_counter()
        mod, params = fx.from_onnx(model, shape=shapes)
        library = fx.build(mod, TARGET, params)
        library.export_library(str(out / f"{name}.{kind}.so"))
        print(f"{name} {kind}: built in {time.perf_counter() - started:.0f} s", flush=True)


def _ours(path: Path, inputs: Mapping[str, np.ndarray]) -> Any:
    executor = graph_executor.GraphModule(tvm.runtime.load_module(str(path))["default"](tvm.cpu()))
    for key, value in inputs.items():
        executor.set_input(key, value)
    return executor


def measure(folder: Path, out: Path, name: str, repeat: int) -> str:
    """Return one row of the table."""
    inputs = inputs_of(folder, name)
    threads = fx.threads()
    ours = [_ours(out / f"{name}.{kind}.so", inputs) for kind in ("int8", "float32")]
    models = (out / f"{name}.onnx", folder / f"{name}.onnx")
    theirs = [prepare_onnx_runtime(model, inputs, threads) for model in models]
    runs = (ours[0].run, ours[1].run, theirs[0].run, theirs[1].run)
    results = []
    for position, run in enumerate(runs):
        made = run()
        results.append(made[0] if position > 1 else ours[position].get_output(0).numpy())
    with threads_apart(threads):
        latencies, failures = time_interleaved(dict(zip(SIDES, runs, strict=True)), repeat)
    if failures:
        raise RuntimeError(f"{name}: {failures}")
    taken = " | ".join(f"{latencies[side].median:.2f}" for side in SIDES)
    exact = results[3]
    accuracy = " | ".join(_accuracy(result, exact) for result in (results[0], results[2]))
    return f"| {name} | {taken} | {accuracy} |"


def _accuracy(found: np.ndarray, exact: np.ndarray) -> str:
    worst = np.abs(found - exact).max() / np.abs(exact).max()
    agree = (found.argmax(-1) == exact.argmax(-1)).mean()
    return f"{worst:.3f}, {agree:.0%}"


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=("prepare", "time"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--repeat", type=int, default=40, help="timed runs of each side")
    arguments = parser.parse_args()
    if arguments.step == "prepare":
        for name in arguments.names:
            prepare(arguments.folder, arguments.out, name)
        return 0
    print(
        f"ONNX Runtime {onnxruntime.__version__}; milliseconds, medians of {arguments.repeat} runs"
    )
    print("| model | " + " | ".join(SIDES) + " | ours from float | ORT from float |")
    print("|---" * 7 + "|")
    for name in arguments.names:
        print(measure(arguments.folder, arguments.out, name, arguments.repeat), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
