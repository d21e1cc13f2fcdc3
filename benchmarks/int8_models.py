"""Models of the zoo quantized by ONNX Runtime's tool, on disk beside those in float."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from tvm_fusionx import zoo
from tvm_fusionx.compress.quantize.prepare import LEAST_OPSET
from tvm_fusionx.frontend.read_model import opset_of
from tvm_fusionx.output_file import new_file

CALIBRATION_RUNS = 3

INT8, FLOAT32 = "int8", "float32"

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
    loaded = onnx.load(cleaned)
    if opset_of(loaded) < LEAST_OPSET:
        # The tool writes scales of channels into any opset; they mean something from this one on.
        onnx.save(onnx.version_converter.convert_version(loaded, LEAST_OPSET), cleaned)
    options = TRANSFORMER_OPTIONS if is_transformer(cleaned) else {}
    quantize_static(
        cleaned,
        scratch,
        Calibration(inputs_of(out, name)),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        **options,
    )
    cleaned.unlink()
    os.replace(scratch, path)
    return path


def is_transformer(model: Path) -> bool:
    """Return whether a model is rather products and softmaxes than convolutions."""
    nodes = onnx.load(model, load_external_data=False).graph.node
    counts = Counter(node.op_type for node in nodes)
    # A detector of convolutions may have a softmax at its end.
    return bool(counts["Softmax"]) and counts["MatMul"] + counts["Gemm"] > counts["Conv"]
