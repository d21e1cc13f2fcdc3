"""The models by name: what each takes, where it comes from, and inputs to run it with."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_fusionx.errors import ModelError, ShapeError
from tvm_fusionx.zoo import pictures, sentences, transformer_models
from tvm_fusionx.zoo.packages import find_packaged_file, import_zoo_package
from tvm_fusionx.zoo.torch_export import Exporter, call_with_names, export_module
from tvm_fusionx.zoo.weights import draw_weights

Inputs = dict[str, npt.NDArray[Any]]
Shape = tuple[int, ...]

OCR_DISTRIBUTION = "rapidocr-onnxruntime"
# The sizes PP-OCR was published with; detection takes any multiple of 32.
DETECTION_SHAPE = (1, 3, 320, 320)
RECOGNITION_SHAPE = (1, 3, 48, 320)
CLASSIFICATION_SHAPE = (1, 3, 48, 192)
IMAGENET_SHAPE = (1, 3, 224, 224)

WEIGHT_SEED = 20210620
INPUT_SEED = 883
# Tokens of the random sentence; the rest of the sequence is padding, so that the mask matters.
SENTENCE_TOKENS = 96
# A ReLU halves the mean square of what passes it; the square root of 2 makes up for it (He et al.).
RELU_GAIN = math.sqrt(2)
BERT_VOCABULARY = 30522
GPT2_VOCABULARY = 50257


@dataclass(frozen=True)
class ExportedModel:
    """An ONNX file of the zoo, and what must be known to compile and run it."""

    name: str
    """The name under which the zoo knows it."""

    path: Path
    """The ONNX file."""

    shapes: dict[str, Shape]
    """Shape of every input: what ``fx.from_onnx(path, shape=...)`` takes."""

    dtypes: dict[str, str]
    """Dtype of every input, as numpy spells it."""


@dataclass(frozen=True)
class Recipe:
    """How one model is made: sample inputs that fix its shapes, and a function that writes it."""

    sample: Callable[[], Inputs]
    write: Callable[[Inputs, Path, Exporter], None]
    packages: tuple[str, ...] = field(default=())
    """What must be installed, for messages and for tests that skip."""


def _copy_packaged(
    distribution: str, file_name: str, inputs: Inputs, path: Path, exporter: Exporter
) -> None:
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
        output_name,
        exporter,
    )


def _write_vision(
    model_name: str, gain: float, inputs: Inputs, path: Path, exporter: Exporter
) -> None:
    import_zoo_package("torch")
    # Defines torch modules, so it can only be imported once torch is known to be there.
    from tvm_fusionx.zoo import vision_models

    make_model = getattr(vision_models, model_name)
    export_module(
        lambda: draw_weights(make_model(), WEIGHT_SEED, gain),
        tuple(inputs.values()),
        path,
        tuple(inputs),
        "scores",
        exporter,
    )


def _random_sentence(vocabulary: int, tokens: int) -> Inputs:
    length = sentences.SEQUENCE_LENGTH
    ids = np.random.default_rng(INPUT_SEED).integers(1, vocabulary, (1, length), np.int64)
    mask = (np.arange(length)[None] < tokens).astype(np.int64)
    return {"input_ids": ids * mask, "attention_mask": mask}


def _minilm_inputs() -> Inputs:
    return dict(sentences.sentence_inputs(sentences.SAMPLE_SENTENCE))


def _ocr_recipe(
    file_name: str, shape: Shape, draw: Callable[[int, int], npt.NDArray[np.float32]]
) -> Recipe:
    return Recipe(
        sample=lambda: {"x": draw(*shape[2:])},
        write=partial(_copy_packaged, OCR_DISTRIBUTION, file_name),
        packages=(OCR_DISTRIBUTION, "pillow"),
    )


def _vision_recipe(model_name: str, gain: float) -> Recipe:
    return Recipe(
        sample=lambda: {"image": pictures.scene_for_classification(*IMAGENET_SHAPE[2:])},
        write=partial(_write_vision, model_name, gain),
        packages=("torch", "pillow"),
    )


def _transformer_recipe(
    make_model: Callable[[], Any],
    output_name: str,
    sample: Callable[[], Inputs],
    packages: tuple[str, ...] = (),
) -> Recipe:
    return Recipe(
        sample=sample,
        write=partial(_write_transformer, make_model, output_name),
        packages=("torch", "transformers", *packages),
    )


CATALOG: Mapping[str, Recipe] = {
    "ppocr-det": _ocr_recipe(
        "ch_PP-OCRv4_det_infer.onnx", DETECTION_SHAPE, pictures.page_for_detection
    ),
    "ppocr-rec": _ocr_recipe(
        "ch_PP-OCRv4_rec_infer.onnx", RECOGNITION_SHAPE, pictures.line_for_recognition
    ),
    "ppocr-cls": _ocr_recipe(
        "ch_ppocr_mobile_v2.0_cls_infer.onnx", CLASSIFICATION_SHAPE, pictures.line_for_recognition
    ),
    "minilm": _transformer_recipe(
        transformer_models.make_minilm,
        "last_hidden_state",
        _minilm_inputs,
        packages=(sentences.MINILM_DISTRIBUTION, "safetensors", "tokenizers"),
    ),
    "resnet18": _vision_recipe("resnet18", gain=1.0),
    "mobilenet-v1": _vision_recipe("mobilenet_v1", gain=RELU_GAIN),
    "bert-base": _transformer_recipe(
        partial(transformer_models.make_bert_base, WEIGHT_SEED),
        "last_hidden_state",
        partial(_random_sentence, BERT_VOCABULARY, SENTENCE_TOKENS),
    ),
    "gpt2": _transformer_recipe(
        partial(transformer_models.make_gpt2, WEIGHT_SEED),
        "logits",
        partial(_random_sentence, GPT2_VOCABULARY, sentences.SEQUENCE_LENGTH),
    ),
    "mobilebert": _transformer_recipe(
        partial(transformer_models.make_mobilebert, WEIGHT_SEED),
        "last_hidden_state",
        partial(_random_sentence, BERT_VOCABULARY, SENTENCE_TOKENS),
    ),
}


def names() -> tuple[str, ...]:
    """Return the names of the zoo's models, the quickest to obtain first."""
    return tuple(CATALOG)


def _recipe(name: str) -> Recipe:
    if name not in CATALOG:
        raise ModelError(
            f"zoo model {name!r}",
            expected=f"one of {', '.join(CATALOG)}",
            found="another name",
            next_step="List them with tvm_fusionx.zoo.names().",
        )
    return CATALOG[name]


def export(
    name: str, path: str | os.PathLike[str], exporter: Exporter = "torchscript"
) -> ExportedModel:
    """Write a model of the zoo as an ONNX file.

    Parameters
    ----------
    name
        One of :func:`names`.
    path
        Where to write the file; its folder must exist.
    exporter
        ``"torchscript"`` (opset 17) or ``"dynamo"`` (opset 18), for models made with torch; models
        that are published as ONNX files are copied as they are.

    Returns
    -------
    exported
        The file with the shapes and dtypes of its inputs.

    Raises
    ------
    ModelError
        If the zoo has no such model.
    MissingDependencyError
        If a package that the model needs is not installed; nothing is ever downloaded.
    """
    recipe = _recipe(name)
    # transformers looks for files on the network unless it is told that there is none.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    inputs = recipe.sample()
    recipe.write(inputs, Path(path), exporter)
    return ExportedModel(
        name=name,
        path=Path(path),
        shapes={key: value.shape for key, value in inputs.items()},
        dtypes={key: str(value.dtype) for key, value in inputs.items()},
    )


def sample_inputs(model: str | ExportedModel) -> Inputs:
    """Return realistic inputs of a zoo model, the same every time.

    Drawn text for PP-OCR, a tokenised sentence for MiniLM, a picture for the image
    classifiers, seeded tokens with padding for the others.

    Parameters
    ----------
    model
        A name of :func:`names`, or what :func:`export` returned.
    """
    return _recipe(model.name if isinstance(model, ExportedModel) else model).sample()


def random_inputs(
    model: Any, shape: Mapping[str, Shape] | None = None, seed: int = INPUT_SEED
) -> Inputs:
    """Return seeded inputs for any ONNX model: normal floats, integers and booleans of 0 and 1.

    Integers stay at 0 and 1 because they are mostly indices, and every axis has an element 0.

    Parameters
    ----------
    model
        A path, or an ``onnx.ModelProto``.
    shape
        Shapes of inputs whose dimensions are not fixed in the file.

    Raises
    ------
    ShapeError
        If an input has a dynamic dimension and `shape` does not give its shape.
    """
    import onnx

    proto = model if isinstance(model, onnx.ModelProto) else onnx.load(os.fspath(model))
    constants = {tensor.name for tensor in proto.graph.initializer}
    generator = np.random.default_rng(seed)
    inputs: Inputs = {}
    for value in proto.graph.input:
        if value.name in constants:
            continue
        tensor_type = value.type.tensor_type
        dims = (shape or {}).get(value.name) or tuple(d.dim_value for d in tensor_type.shape.dim)
        if any(dim <= 0 for dim in dims):
            raise ShapeError(
                f"input {value.name!r}",
                expected="a size for every dimension",
                found=str([d.dim_param or d.dim_value for d in tensor_type.shape.dim]),
                next_step=f"Pass shape={{{value.name!r}: (...)}}.",
            )
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor_type.elem_type))
        if dtype.kind == "f":
            inputs[value.name] = generator.standard_normal(dims).astype(dtype)
        else:
            inputs[value.name] = generator.integers(0, 2, dims).astype(dtype)
    return inputs
