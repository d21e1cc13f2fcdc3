"""The models by name: exporting one, and inputs to run it with."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.errors import ModelError, ShapeError
from tvm_fusionx.output_file import new_file
from tvm_fusionx.zoo.further import FURTHER_RECIPES
from tvm_fusionx.zoo.recipe import INPUT_SEED, Inputs, Recipe, Shape
from tvm_fusionx.zoo.recipes import RECIPES
from tvm_fusionx.zoo.torch_export import Exporter


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


def names() -> tuple[str, ...]:
    """Return the names of the zoo's models, the quickest to obtain first."""
    return tuple(RECIPES)


def further_names() -> tuple[str, ...]:
    """Return the names of models to try that are not measured with the zoo."""
    return tuple(FURTHER_RECIPES)


def summary(name: str) -> str:
    """Return in one line what the model called `name` is, its input's size, and where it is cut.

    Raises
    ------
    ModelError
        If the zoo has no such model.
    """
    return _recipe(name).summary


def _recipe(name: str) -> Recipe:
    known = {**FURTHER_RECIPES, **RECIPES}
    if name not in known:
        near = difflib.get_close_matches(name, known)
        raise ModelError(
            f"zoo model {name!r}",
            expected="the name of a model of the zoo",
            found="another name" + (f", near {', '.join(near)}" if near else ""),
            next_step="List them with `fusionx zoo list`, or tvm_fusionx.zoo.names().",
        )
    return known[name]


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
        that are published as ONNX files are copied as they are. ``"program"`` writes torch's
        exported program instead of an ONNX file.

    Returns
    -------
    exported
        The file with the shapes and dtypes of its inputs.

    Raises
    ------
    ModelError
        If the zoo has no such model, or no torch program of it.
    MissingDependencyError
        If a package that the model needs is not installed; nothing is ever downloaded.
    """
    recipe = _recipe(name)
    # transformers looks for files on the network unless it is told that there is none.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    inputs = recipe.sample()
    with new_file(Path(path)) as scratch:
        recipe.write(inputs, scratch, exporter)
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
