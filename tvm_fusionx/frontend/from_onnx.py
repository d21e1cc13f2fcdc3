"""ONNX model to Relay module, with static shapes and constants folded."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx._tvm.quick_calls import quick_calls
from tvm_fusionx._tvm.type_errors import heard_diagnostics, plain_message
from tvm_fusionx.errors import FusionXError, ModelError
from tvm_fusionx.frontend.binding import asks_to_bind, left_to_run_time
from tvm_fusionx.frontend.check_products import check_products
from tvm_fusionx.frontend.functions import local_functions
from tvm_fusionx.frontend.model_inputs import (
    DtypeArgument,
    ShapeArgument,
    check_constants,
    resolve_inputs,
)
from tvm_fusionx.frontend.nchwc_blocks import blocks_of
from tvm_fusionx.frontend.read_model import ModelSource, check_source, opsets_of, read_model
from tvm_fusionx.frontend.scope import Scope
from tvm_fusionx.frontend.support import check_operators
from tvm_fusionx.frontend.translate import Translation
from tvm_fusionx.frontend.values import Tensor, Value

logger = logging.getLogger(__name__)

# Of a file's properties those that passes read: attributes of the module.
KEPT_PROPERTIES = frozenset(["fusionx.reuse"])


@quick_calls()
def from_onnx(
    path_or_model: ModelSource,
    shape: ShapeArgument = None,
    dtype: DtypeArgument = None,
    *,
    constants: Mapping[str, Any] | None = None,
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Import an ONNX model as a Relay module with static shapes.

    Shape arithmetic and everything else that depends on constants only is computed here, and never
    reaches Relay. Loops of known length are unrolled. Each call's span is the name of the ONNX node
    it comes from (``call.span.source_name.name``).

    Parameters
    ----------
    path_or_model
        A path (external weights are read from beside it), the bytes of a file, or a loaded model.
    shape
        Sizes of inputs with open dimensions, by input name.
    dtype
        The dtypes you expect, by input name or one for all floating inputs; checked, not converted.
    constants
        Values of inputs to bind while compiling, by input name. Best for all that decide a shape,
        such as the target of a Reshape: what such an input leaves open runs on TVM's virtual
        machine where all that reads it can, which is logged, and is refused otherwise.

    Returns
    -------
    mod : tvm.IRModule
        ``main`` takes the model's inputs in order, weights are constants, types are inferred. A
        sequence output becomes as many outputs as it has items.
        The file's choices of what to reuse are its attribute ``fusionx.reuse``.
    params : dict
        Empty: every weight is in `mod`. Kept for the convention of TVM's importers.

    Raises
    ------
    ModelError
        If the file is missing, truncated, not ONNX, newer than opset 28, or damaged.
    UnsupportedOperatorError
        If operators have no translation (all are listed), or a node uses one as no converter can.
    ShapeError
        If a dimension is left open, or a given shape contradicts the model.
    InputError
        If a name is not one of the model's inputs, or a dtype contradicts the model.

    Examples
    --------
    >>> mod, params = from_onnx("model.onnx", shape={"x": (1, 3, 320, 320)})  # doctest: +SKIP
    """
    check_source(path_or_model)
    with heard_diagnostics() as heard:
        try:
            return _import(path_or_model, shape, dtype, constants or {}, heard), {}
        except FusionXError:
            raise
        except Exception as error:
            # The last net: what no check above foresaw is still a sentence, with the cause chained.
            raise ModelError(
                _name_of(path_or_model),
                expected="a model that can be translated",
                found=f"{type(error).__name__}: {plain_message(error, heard)}",
                next_step="Check it with onnx.checker.check_model; if it is valid, report this.",
            ) from error


def _name_of(source: ModelSource) -> str:
    return os.fspath(source) if isinstance(source, (str, os.PathLike)) else "the model"


def _import(
    source: ModelSource,
    shape: ShapeArgument,
    dtype: DtypeArgument,
    constants: Mapping[str, Any],
    heard: list[str],
) -> tvm.IRModule:
    model = read_model(source)
    arrays = check_constants(model, constants)
    inputs = resolve_inputs(model, shape, dtype, arrays)
    opsets = opsets_of(model)
    check_operators(model, opsets, inputs)

    try:
        return _translated(model, opsets, inputs, arrays, heard)
    except FusionXError as error:
        if not asks_to_bind(error):
            raise
        try:
            with left_to_run_time():
                mod = _translated(model, opsets, inputs, arrays, heard)
        except Exception:
            # Bound, all of it is known; behind what stays open there is something that cannot be.
            raise error from None
        logger.warning("%s is left to the run time. %s", error.thing, error.next_step)
        return mod


def _translated(
    model: Any,
    opsets: Mapping[str, int],
    inputs: Mapping[str, tuple[tuple[int, ...], str]],
    arrays: Mapping[str, Any],
    heard: list[str],
) -> tvm.IRModule:
    translation = Translation(opsets, heard, local_functions(model))
    scope = Scope()
    params = []
    elements = {info.name: info.type.tensor_type.elem_type for info in model.graph.input}
    for name, (dims, element_dtype) in inputs.items():
        variable = relay.var(name, shape=dims, dtype=element_dtype)
        params.append(variable)
        tensor = translation.input_tensor(variable, dims, element_dtype)
        tensor.element = elements[name]
        scope[name] = tensor
    for name, array in arrays.items():
        scope[name] = Tensor.from_array(array)
    with blocks_of(model):
        outputs = _flatten(translation.run_graph(model.graph, scope))
    body = outputs[0] if len(outputs) == 1 else relay.Tuple(outputs)
    module = tvm.IRModule(translation.beside)
    module["main"] = relay.Function(params, body)
    mod = relay.transform.InferType()(module)
    check_products(mod)
    kept = {prop.key: prop.value for prop in model.metadata_props if prop.key in KEPT_PROPERTIES}
    return mod.with_attrs(kept) if kept else mod


def _flatten(values: list[Value]) -> list[Any]:
    """Return the expressions of all outputs, the items of sequences one by one."""
    exprs: list[Any] = []
    for value in values:
        if value is None:
            raise ModelError(
                "the model's output",
                expected="a tensor or a sequence of tensors",
                found="an optional without content",
                next_step="Export the model without optional outputs.",
            )
        exprs.extend(item.expr for item in (value if isinstance(value, list) else [value]))
    return exprs
