"""A model as quantising needs it: constants folded, norms of convolutions too, every node named."""

from __future__ import annotations

import io
import logging
from contextlib import redirect_stdout
from typing import Any

import onnx
from onnx import version_converter

from tvm_fusionx._tvm.presence import install_command
from tvm_fusionx.compress.quantize.model_graph import FLOAT, ModelGraph
from tvm_fusionx.errors import MissingDependencyError, ModelError
from tvm_fusionx.frontend.read_model import ModelSource, opset_of, opsets_of, read_model

logger = logging.getLogger(__name__)

# The first opset with a scale for each channel.
LEAST_OPSET = 13

QUANTIZED = ("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulNBits")


def prepare_model(source: ModelSource, least_opset: int = LEAST_OPSET) -> Any:
    """Return the model of `source` simplified, in an opset that can say what quantising needs.

    Parameters
    ----------
    source
        A path, the bytes of a file, or a loaded model, which is not changed.
    least_opset
        The oldest version of ONNX's operators that will do.

    Raises
    ------
    ModelError
        The model cannot be read, is quantized already, has no float32 tensors, or is of an opset
        that cannot be converted.
    MissingDependencyError
        The package that folds constants is not installed.
    """
    read = read_model(source)
    model = onnx.ModelProto()
    model.CopyFrom(read)
    _check(model)
    model = _converted(_folded(model), least_opset)
    _name_nodes(model)
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def _check(model: Any) -> None:
    done = sorted({node.op_type for node in model.graph.node} & set(QUANTIZED))
    floats = any(info.type.tensor_type.elem_type == FLOAT for info in model.graph.output)
    if done or not floats:
        raise ModelError(
            f"model {model.graph.name!r}",
            expected="a model of float32",
            found=f"one that is quantized already ({', '.join(done)})"
            if done
            else "no output of float32",
            next_step="Give the model as it was exported, in float32.",
        )


def _folded(model: Any) -> Any:
    try:
        import onnxslim
    except ImportError as error:
        raise MissingDependencyError(
            "folding a model's constants",
            expected="the onnxslim package",
            found=str(error),
            next_step=f"Install it with: {install_command('onnxslim')}.",
        ) from error
    try:
        # It prints a table of what it did.
        with redirect_stdout(io.StringIO()):
            slim = onnxslim.slim(model)
    except Exception as error:
        logger.warning("constants are not folded: %s: %s", type(error).__name__, error)
        return model
    return model if slim is None else slim


def _converted(model: Any, least_opset: int) -> Any:
    version = opset_of(model)
    if version >= least_opset:
        return model
    try:
        return version_converter.convert_version(model, least_opset)
    except Exception as error:
        raise ModelError(
            f"model {model.graph.name!r}",
            expected=f"ONNX opset {least_opset} or newer, or one that can be converted to it",
            found=f"opset {version} with {opsets_of(model)}: {' '.join(str(error).split())[:200]}",
            next_step=f"Export it again with opset_version={least_opset}.",
        ) from error


def _name_nodes(model: Any) -> None:
    """Give every node a name that no other has: layers are called by it."""
    seen: set[str] = set()
    for index, node in enumerate(model.graph.node):
        name = node.name or f"{node.op_type}_{index}"
        while name in seen:
            name = f"{name}_{index}"
        node.name = name
        seen.add(name)


def prepared_graph(source: ModelSource, least_opset: int = LEAST_OPSET) -> ModelGraph:
    """Return :func:`prepare_model`'s model with an index."""
    return ModelGraph(prepare_model(source, least_opset))
