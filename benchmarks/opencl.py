"""Build models for OpenCL, run them on the first device, and compare with stored outputs.

    python benchmarks/opencl.py FOLDER [NAME...] [--target "opencl -device=adreno"]
        [--precision float16] [--images]

FOLDER holds NAME.onnx, NAME.inputs.npz and NAME.outputs.npz; without names, every model in it. Each
model is told in one line: blocks, kernels, blocks left to TVM's own schedules, the largest
difference relative to the largest output, and what a start takes. Times on a CPU's OpenCL driver
say nothing about a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.build.pipeline import pipeline
from tvm_fusionx.devices.opencl_plugin import load_opencl
from tvm_fusionx.devices.opencl_programs import measure_startup, opencl_module
from tvm_fusionx.errors import EXIT_OK, EXIT_WRONG_RESULT
from tvm_fusionx.lowering import lowering
from tvm_fusionx.schedules.gpu.pixels import ACTIVATION_SCOPE

TOLERANCE = 1e-5
FLOAT16_TOLERANCE = 1e-2
KERNELS = re.compile(r"^// Function: ", re.MULTILINE)


def main() -> int:
    """Run the models and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--target", default="opencl")
    parser.add_argument("--precision", choices=["float16"])
    parser.add_argument("--images", action="store_true", help="between kernels, too")
    parser.add_argument("--tolerance", type=float)
    arguments = parser.parse_args()
    tolerance = arguments.tolerance or (FLOAT16_TOLERANCE if arguments.precision else TOLERANCE)
    load_opencl(build=True)
    fx.threads()
    names = arguments.names or sorted(path.stem for path in arguments.folder.glob("*.onnx"))
    target = tvm.target.Target(arguments.target, host="llvm")
    wrong = []
    for name in names:
        try:
            difference = run(arguments.folder / name, target, arguments)
        except Exception as error:  # one model's fault must not hide the others
            lines = str(error).strip().splitlines() or [type(error).__name__]
            print(f"{name}: FAILED {type(error).__name__}: {lines[-1]}", flush=True)
            wrong.append(name)
            continue
        if difference > tolerance:
            wrong.append(name)
    print(f"{len(names) - len(wrong)} of {len(names)} agree within {tolerance:g}", wrong)
    return EXIT_WRONG_RESULT if wrong else EXIT_OK


def run(stem: Path, target: tvm.target.Target, choices: argparse.Namespace) -> float:
    """Build and run one model; print its line and return the difference."""
    inputs = dict(np.load(f"{stem}.inputs.npz"))
    expected = np.load(f"{stem}.outputs.npz")
    started = time.perf_counter()
    mod, params = fx.from_onnx(f"{stem}.onnx", shape={key: x.shape for key, x in inputs.items()})
    blocks = pipeline(target, precision=choices.precision)(bind_parameters(mod, params))
    with lowering(target, activation_images=choices.images) as log:
        library = relay.build(blocks, target)
    seconds = time.perf_counter() - started
    templates = Counter(entry.template for entry in log.entries)
    refused = [entry for entry in log.entries if entry.fallback_reason]
    source = opencl_module(library.get_lib())
    kernels = len(KERNELS.findall(source.get_source())) if source is not None else 0
    startup = measure_startup(library, inputs, cache=False, runs=1)
    executor = graph_executor.GraphModule(library["default"](tvm.opencl(0)))
    for key, value in inputs.items():
        executor.set_input(key, value)
    executor.run()
    difference = 0.0
    for index, key in enumerate(expected.files):
        found, wanted = executor.get_output(index).numpy(), expected[key]
        if not np.isfinite(found).all() and np.isfinite(wanted).all():
            difference = float("inf")
            continue
        scale = float(np.abs(wanted).max()) or 1.0
        difference = max(difference, float(np.abs(found - wanted).max()) / scale)
    scopes = json.loads(library.get_graph_json())["attrs"].get("storage_scope", ("", []))[1]
    images = scopes.count(ACTIVATION_SCOPE)
    print(
        f"{stem.name}: {len(log.entries)} blocks {dict(templates)}, {kernels} kernels, "
        f"{len(refused)} after a refusal; {images} images between kernels; "
        f"difference {difference:.2g}; built in {seconds:.0f} s; {startup}",
        flush=True,
    )
    for reason, times in Counter(log.buffers.values()).most_common():
        print(f"    {times} tensors stay buffers: {reason}", flush=True)
    for entry in refused:
        print(f"    {entry.name}: {entry.template}, as {entry.fallback_reason}", flush=True)
    return difference


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # TVM's pool may wait for its threads for ever while a process ends.
    os._exit(status)
