"""Other runtimes that a benchmark compares with: one file each, at its best settings for latency.

Each file has one function ``prepare(model, inputs, threads, conversions)`` that gives a
:class:`PreparedPeer`, in float32 and with the given number of threads. A package that is missing,
or a model that it cannot run, raises; the benchmark reports the message.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.report.peers.conversions import Conversions

# Name on the command line -> module of this package.
PEERS: Mapping[str, str] = {
    "ort": "onnx_runtime",
    "openvino": "open_vino",
    "mnn": "mnn_session",
    "ncnn": "ncnn_net",
    "torch": "torch_eager",
    "torch-compile": "torch_compile",
    "executorch": "executorch_method",
    "litert": "lite_rt",
}

# Those that read ONNX files; the others take the torch module that a model was made from.
# Name on the command line -> package that is imported.
PACKAGES = {"ort": "onnxruntime", "openvino": "openvino", "mnn": "MNN", "ncnn": "ncnn"}
ONNX_PEERS = tuple(PACKAGES)


@dataclass(frozen=True)
class PreparedPeer:
    """A model loaded into another runtime.

    Attributes
    ----------
    name
        Name on the command line.
    version
        Version of the runtime.
    run
        Runs the model once on the inputs that it was prepared with; returns what the runtime
        returns.
    outputs
        Turns what `run` returned into arrays, in the model's order; not timed.
    count_kernels
        Returns the operations that the runtime executes in one run, after its own fusion, without
        reshapes; None where the runtime does not tell.
    """

    name: str
    version: str
    run: Callable[[], Any]
    outputs: Callable[[Any], list[np.ndarray]]
    count_kernels: Callable[[], int] | None = None


def prepare_peer(
    name: str,
    model: Path,
    inputs: Mapping[str, np.ndarray],
    threads: int,
    conversions: Conversions | None = None,
) -> PreparedPeer:
    """Load the ONNX file `model` into the runtime called `name`.

    Parameters
    ----------
    conversions
        Where converted models are kept; by default they are not.

    Raises
    ------
    Exception
        Whatever the runtime raises, or ImportError when it is not installed.
    """
    module = importlib.import_module(f"{__name__}.{PEERS[name]}")
    prepared: PreparedPeer = module.prepare(model, inputs, threads, conversions or Conversions())
    return prepared
