"""MNN on the CPU, in float32."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.report.peers import PreparedPeer
from tvm_fusionx.report.peers.conversions import Conversions, onnx_sources

# A conversion takes seconds; one that takes longer hangs.
CONVERSION_SECONDS = 300

# MNN's converter prints its log on standard output and may end the process: it runs in one of its
# own. Its compiled module is called, not `MNN.tools.mnnconvert`, which reports uses to a server.
CONVERTED = "model.mnn"
# Weights in 8 bits, and what they are multiplied by quantized as it comes.
BYTES_OPTIONS, BYTES_MEMORY = ("--weightQuantBits", "8"), "low"
CONVERT = "import sys, _tools; _tools.mnnconvert(['mnnconvert', *sys.argv[1:]])"


def prepare(
    model: Path,
    inputs: Mapping[str, np.ndarray],
    threads: int,
    conversions: Conversions,
    options: Sequence[str] = (),
    memory: str = "normal",
) -> PreparedPeer:
    """Convert `model` and return an MNN module on it, with high precision, which is float32.

    The converter gets `options` besides its own. With the `memory` ``low``, weights that it
    quantized stay so, and multiply integers.
    """
    import MNN

    input_names, output_names = names_of(model)
    version = metadata.version("MNN")
    with converted(model, conversions, options) as folder:
        manager = MNN.nn.create_runtime_manager(
            ({"numThread": threads, "precision": "high", "memory": memory, "backend": "CPU"},)
        )
        module = MNN.nn.load_module_from_file(
            str(folder / CONVERTED), input_names, output_names, runtime_manager=manager
        )
    variables = [_variable(MNN, inputs[name]) for name in input_names]

    def run() -> Any:
        results = module.forward(variables)
        # Evaluation is lazy: reading asks for it.
        return [result.read() for result in results]

    return PreparedPeer(
        name="mnn",
        version=version,
        run=run,
        outputs=lambda results: [np.array(result) for result in results],
    )


def names_of(model: Path) -> tuple[list[str], list[str]]:
    """Return the names of a model's inputs and outputs, which MNN asks for."""
    import onnx

    network = onnx.load(str(model), load_external_data=False)
    given = {tensor.name for tensor in network.graph.initializer}
    inputs = [tensor.name for tensor in network.graph.input if tensor.name not in given]
    return inputs, [output.name for output in network.graph.output]


@contextlib.contextmanager
def converted(model: Path, conversions: Conversions, options: Sequence[str] = ()) -> Iterator[Path]:
    """Yield a folder with :data:`CONVERTED`, what MNN's converter made of `model`."""
    sources = [*onnx_sources(model), CONVERT, metadata.version("MNN"), *options]

    def convert(to: Path) -> None:
        _convert(model, to / CONVERTED, options)

    with conversions.made("mnn", sources, convert) as folder:
        yield folder


def _convert(model: Path, converted: Path, options: Sequence[str] = ()) -> None:
    command = [sys.executable, "-c", CONVERT, "-f", "ONNX"]
    command += ["--modelFile", str(model), "--MNNModel", str(converted), "--bizCode", "fusionx"]
    command += options
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=CONVERSION_SECONDS, check=False
    )
    if not converted.exists():
        last = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(f"mnnconvert failed: {last[-1] if last else done.returncode}")


def _variable(mnn: Any, value: np.ndarray) -> Any:
    """Return `value` as a variable; MNN takes 32-bit integers in place of 64-bit ones."""
    if np.issubdtype(value.dtype, np.integer) or value.dtype == np.bool_:
        flat, kind = value.astype(np.int32), mnn.expr.int
    else:
        flat, kind = value.astype(np.float32), mnn.expr.float
    return mnn.expr.const(flat.copy(), list(value.shape), mnn.expr.NCHW, kind)
