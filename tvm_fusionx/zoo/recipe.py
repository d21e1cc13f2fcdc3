"""The ways in which a model of the zoo is made."""

from __future__ import annotations

import importlib
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_fusionx.errors import ModelError
from tvm_fusionx.zoo import sentences
from tvm_fusionx.zoo.packages import find_packaged_file, import_zoo_package
from tvm_fusionx.zoo.torch_export import Exporter, call_with_names, export_module
from tvm_fusionx.zoo.weights import calibrate_norms, draw_weights

Inputs = dict[str, npt.NDArray[Any]]
Shape = tuple[int, ...]

OCR_DISTRIBUTION = "rapidocr-onnxruntime"
WEIGHT_SEED = 20210620
INPUT_SEED = 883
# Tokens of the random sentence; the rest of the sequence is padding, so that the mask matters.
SENTENCE_TOKENS = 96
# A ReLU halves the mean square of what passes it; the square root of 2 makes up for it (He et al.).
RELU_GAIN = math.sqrt(2)


@dataclass(frozen=True)
class Recipe:
    """How one model is made: sample inputs that fix its shapes, and a function that writes it."""

    summary: str
    """What the model is, its source, its input's size, and where it is cut: one line."""

    sample: Callable[[], Inputs]
    write: Callable[[Inputs, Path, Exporter], None]
    packages: tuple[str, ...] = field(default=())
    """What must be installed, for messages and for tests that skip."""


def _copy_packaged(
    distribution: str, file_name: str, inputs: Inputs, path: Path, exporter: Exporter
) -> None:
    if exporter == "program":
        raise ModelError(
            f"torch's program of {file_name}",
            expected="a model made with torch",
            found=f"one that {distribution} carries as an ONNX file alone",
            next_step='Export it as an ONNX file: exporter="torchscript".',
        )
    shutil.copyfile(find_packaged_file(distribution, file_name), path)


def _write_transformer(
    make_model: Callable[[], Any], output_name: str, inputs: Inputs, path: Path, exporter: Exporter
) -> None:
    names = tuple(inputs)
    export_module(
        lambda: call_with_names(make_model(), names, output_name),
        tuple(inputs.values()),
        path,
        names,
        (output_name,),
        exporter,
    )


def _write_network(
    maker: str,
    gain: float,
    output_names: Sequence[str],
    inputs: Inputs,
    path: Path,
    exporter: Exporter,
) -> None:
    import_zoo_package("torch")
    # Defines torch modules, so it can only be imported once torch is known to be there.
    module_name, function_name = maker.split(".")
    module = importlib.import_module(f"tvm_fusionx.zoo.networks.{module_name}")
    arguments = tuple(inputs.values())

    def make_module() -> Any:
        drawn = draw_weights(getattr(module, function_name)(), WEIGHT_SEED, gain)
        return calibrate_norms(drawn, arguments)

    export_module(make_module, arguments, path, tuple(inputs), output_names, exporter)


def random_sentence(vocabulary: int, tokens: int) -> Inputs:
    """Return seeded token numbers, padded after the first `tokens`, and the mask that says so."""
    length = sentences.SEQUENCE_LENGTH
    ids = np.random.default_rng(INPUT_SEED).integers(1, vocabulary, (1, length), np.int64)
    mask = (np.arange(length)[None] < tokens).astype(np.int64)
    return {"input_ids": ids * mask, "attention_mask": mask}


def packaged_ocr(
    summary: str,
    file_name: str,
    size: tuple[int, int],
    draw: Callable[[int, int], npt.NDArray[np.float32]],
) -> Recipe:
    """Return the recipe of a trained PP-OCR model, taken from the package that carries it."""
    return Recipe(
        summary=f"{summary} (PP-OCR, Baidu), trained, {size[0]}x{size[1]}",
        sample=lambda: {"x": draw(*size)},
        write=partial(_copy_packaged, OCR_DISTRIBUTION, file_name),
        packages=(OCR_DISTRIBUTION, "pillow"),
    )


def network(
    maker: str,
    summary: str,
    sample: Callable[[], Inputs],
    outputs: Sequence[str] = ("scores",),
    gain: float = 1.0,
) -> Recipe:
    """Return the recipe of ``tvm_fusionx.zoo.networks``'s `maker`, spelled ``module.function``.

    `gain` matters only to networks without batch norm, which is calibrated.
    """
    return Recipe(
        summary=summary,
        sample=sample,
        write=partial(_write_network, maker, gain, tuple(outputs)),
        packages=("torch", "pillow"),
    )


def transformer(
    make_model: Callable[[], Any],
    summary: str,
    output_name: str,
    sample: Callable[[], Inputs],
    packages: tuple[str, ...] = (),
) -> Recipe:
    """Return the recipe of a model of `transformers`, of which one named output is kept."""
    return Recipe(
        summary=summary,
        sample=sample,
        write=partial(_write_transformer, make_model, output_name),
        packages=("torch", "transformers", *packages),
    )
