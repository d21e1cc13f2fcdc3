"""LiteRT (TensorFlow Lite) on the CPU, with its XNNPACK delegate, in float32."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.report.peers import PreparedPeer
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.report.peers.torch_program import (
    convert_apart,
    program_file,
    program_sources,
)

CONVERTED = "model.tflite"
CONVERT = """
import sys, torch, litert_torch
program = torch.export.load(sys.argv[1])
litert_torch.convert(program.module(), program.example_inputs[0]).export(sys.argv[2])
"""


def prepare(
    model: Path,
    inputs: Mapping[str, np.ndarray],
    threads: int,
    conversions: Conversions,
) -> PreparedPeer:
    """Convert the model's exported program with litert-torch and return an interpreter on it."""
    with converted(model, inputs, conversions) as folder:
        return loaded((folder / CONVERTED).read_bytes(), inputs, threads)


def loaded(content: bytes, inputs: Mapping[str, np.ndarray], threads: int) -> PreparedPeer:
    """Return an interpreter on a converted model of one signature, which takes `inputs`."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=content, num_threads=threads)
    interpreter.allocate_tensors()
    (signature,) = interpreter.get_signature_list().values()
    runner = interpreter.get_signature_runner()
    takes, gives = runner.get_input_details(), runner.get_output_details()
    for name, value in zip(_in_order(signature["inputs"]), inputs.values(), strict=True):
        interpreter.set_tensor(takes[name]["index"], stored(value, takes[name]))
    kept = [gives[name] for name in _in_order(signature["outputs"])]

    def outputs(_: Any) -> list[np.ndarray]:
        return [meant(np.array(interpreter.get_tensor(each["index"])), each) for each in kept]

    return PreparedPeer(
        name="litert",
        version=metadata.version("ai-edge-litert"),
        run=interpreter.invoke,
        outputs=outputs,
    )


def stored(value: np.ndarray, tensor: Mapping[str, Any]) -> np.ndarray:
    """Return a value as a model's input takes it: rounded to levels where that is quantized."""
    scale, zero = tensor["quantization"]
    if not scale:
        return value.astype(tensor["dtype"])
    bounds = np.iinfo(tensor["dtype"])
    levels = np.rint(value / scale) + zero
    return np.clip(levels, bounds.min, bounds.max).astype(tensor["dtype"])


def meant(value: np.ndarray, tensor: Mapping[str, Any]) -> np.ndarray:
    """Return the numbers that a model's output stands for."""
    scale, zero = tensor["quantization"]
    return (value.astype(np.float32) - zero) * np.float32(scale) if scale else value


@contextlib.contextmanager
def converted(
    model: Path, inputs: Mapping[str, np.ndarray], conversions: Conversions
) -> Iterator[Path]:
    """Yield a folder with :data:`CONVERTED`, what litert-torch made of the model's program."""

    def convert(folder: Path) -> None:
        program = program_file(model, inputs, folder)
        convert_apart("litert_torch", CONVERT, program, folder / CONVERTED)

    sources = [*program_sources(model, inputs), CONVERT, metadata.version("litert-torch")]
    with conversions.made("litert", sources, convert) as folder:
        yield folder


def _in_order(names: list[str]) -> list[str]:
    """Return names such as ``args_0`` by their number."""
    return sorted(names, key=lambda name: int(name.rpartition("_")[2]))
