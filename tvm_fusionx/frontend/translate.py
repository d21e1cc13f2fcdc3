"""Walk an ONNX graph once, node by node, making Relay expressions of known type.

Every value has a static shape from the moment it exists, so a shape-computing node is evaluated on
the spot and never reaches Relay, and type inference looks at the new calls of one node only. The
time is linear in the number of nodes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import defs, helper, numpy_helper, shape_inference
from tvm import relay

from tvm_fusionx._tvm import cures
from tvm_fusionx.errors import FusionXError, UnsupportedOperatorError
from tvm_fusionx.frontend.converters import CONVERTERS
from tvm_fusionx.frontend.converters.quantization import is_quantized_matrix
from tvm_fusionx.frontend.element_types import (
    NARROW_OPERATORS,
    STORED_WIDER,
    dtype_of,
    element_type_name,
)
from tvm_fusionx.frontend.evaluate import attribute_value, evaluate
from tvm_fusionx.frontend.functions import expand_function
from tvm_fusionx.frontend.half_precision import (
    cast_array,
    is_computed_in_single,
    rounded_results,
    single_arrays,
    with_single_inputs,
)
from tvm_fusionx.frontend.node import ASK_SUPPORT, Node
from tvm_fusionx.frontend.scope import Scope
from tvm_fusionx.frontend.seal import seal
from tvm_fusionx.frontend.structures import STRUCTURES
from tvm_fusionx.frontend.support import how_translated, qualified_name
from tvm_fusionx.frontend.values import DynamicShapeError, Tensor, Value, constant

logger = logging.getLogger(__name__)

MESSAGE_CHARACTERS = 300

# ONNX 1.17 counts a window that starts behind the data, which ONNX Runtime and PyTorch do not make.
WITH_CEIL_MODE = ("AveragePool", "LpPool", "MaxPool")


class Translation:
    """The state of one ``from_onnx`` call.

    Parameters
    ----------
    opsets
        Opset version per domain.
    """

    def __init__(self, opsets: Mapping[str, int]) -> None:
        self.opsets = dict(opsets)
        # Expressions of earlier nodes, each standing for itself: where naming and folding stop.
        self.known: dict[Any, Any] = {}
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}

    def unique_name(self, wanted: str, op_type: str) -> str:
        """Return `wanted`, or a name made from the operator's, that no other node has."""
        base = wanted or op_type
        name = base
        while not name or name in self._names or (name == op_type and not wanted):
            self._counts[base] = self._counts.get(base, -1) + 1
            name = f"{base}_{self._counts[base]}"
        self._names.add(name)
        return name

    def run_graph(self, graph: Any, scope: Scope, prefix: str = "") -> list[Value]:
        """Translate all nodes of `graph` into `scope` and return the graph's outputs."""
        for tensor in graph.initializer:
            scope[tensor.name] = self._initializer(tensor)
        if graph.sparse_initializer:
            raise UnsupportedOperatorError(
                f"sparse initializer {graph.sparse_initializer[0].values.name!r}",
                expected="dense weights",
                found="a sparse tensor",
                next_step="Export the model with dense weights.",
            )
        self.run_nodes(graph.node, scope, prefix)
        return [scope[info.name] for info in graph.output]

    def run_nodes(self, protos: Iterable[Any], scope: Scope, prefix: str = "") -> None:
        """Translate nodes in order; each result becomes a value of `scope`."""
        for proto in protos:
            results = self._translate(proto, scope, prefix)
            for name, result in zip(proto.output, results, strict=False):
                if name:
                    scope[name] = result

    def _initializer(self, tensor: Any) -> Value:
        dtype = dtype_of(tensor.data_type, f"initializer {tensor.name!r}")
        array = numpy_helper.to_array(tensor)
        # NumPy has no bfloat16: ONNX hands its numbers out as float32, so does this.
        value = Tensor.from_array(array if dtype == "bfloat16" else array.astype(dtype, copy=False))
        value.element = tensor.data_type
        return value

    def _translate(self, proto: Any, scope: Scope, prefix: str) -> Sequence[Value]:
        op_type = qualified_name(proto)
        inputs = [scope[name] if name else None for name in proto.input]
        name = self.unique_name(prefix + proto.name if proto.name else "", proto.op_type)
        version = self._version_of(proto)
        attributes = {a.name: attribute_value(a) for a in proto.attribute}
        node = Node(
            name, op_type, version, attributes, inputs, list(proto.output), list(proto.input)
        )
        try:
            self._check_narrow_inputs(node)
            results = self._results(proto, node, scope)
            self._check_types(proto, node, results)
        except FusionXError:
            raise
        except DynamicShapeError as error:
            raise node.refuse(
                "outputs whose shapes are known while compiling",
                f"{error}, which depends on the data",
            ) from error
        except Exception as error:
            # TVM's converters and type relations raise many types; the user needs one.
            found = " ".join(str(error).split())[-MESSAGE_CHARACTERS:] or type(error).__name__
            raise node.refuse(
                f"attributes and shapes that opset {version} translates", found
            ) from error
        return results

    def _version_of(self, proto: Any) -> int:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        opset = self.opsets.get(domain, 1)
        if not defs.has(proto.op_type, domain):
            return opset
        try:
            return int(defs.get_schema(proto.op_type, opset, domain).since_version)
        except defs.SchemaError:
            return opset

    def _results(self, proto: Any, node: Node, scope: Scope) -> Sequence[Value]:
        if node.op_type in STRUCTURES:
            return STRUCTURES[node.op_type](self, node, scope)
        known = None if is_quantized_matrix(node) else self._evaluate(proto, node)
        if known is not None:
            return known
        way = how_translated(proto, node.version)
        seen = with_single_inputs(node) if is_computed_in_single(node) else node
        if way == "converter":
            return self._sealed(node, seen, CONVERTERS[node.op_type].convert(seen))
        if way == "function":
            return self._expand(proto, node, scope)
        if way == "tvm":
            return self._convert_with_tvm(proto, node, seen)
        raise node.refuse("an operator with a translation", "none", ASK_SUPPORT)

    def _check_narrow_inputs(self, node: Node) -> None:
        if node.op_type in NARROW_OPERATORS or node.op_type in STRUCTURES:
            return
        for value in node.inputs:
            if isinstance(value, Tensor) and value.is_narrow:
                raise node.refuse(
                    "inputs of 8 to 64 bits",
                    f"{element_type_name(value.element)}, which only Cast, QuantizeLinear and "
                    "DequantizeLinear take",
                    "Export the model in float32, float16 or int8.",
                )

    def _evaluate(self, proto: Any, node: Node) -> list[Value] | None:
        arrays = [value.array if isinstance(value, Tensor) else value for value in node.inputs]
        is_known = all(
            array is not None or value is None
            for array, value in zip(arrays, node.inputs, strict=True)
        )
        if not is_known or any(
            isinstance(value, list) or (isinstance(value, Tensor) and value.is_narrow)
            for value in node.inputs
        ):
            return None
        if is_computed_in_single(node):
            arrays = single_arrays(arrays)
        results = evaluate(proto, arrays, self.opsets)
        if results is None:
            return None
        if is_computed_in_single(node):
            results = [cast_array(array, node.dtype()) for array in results]
        return [Tensor.from_array(array) for array in results]

    def _expand(self, proto: Any, node: Node, scope: Scope) -> list[Value]:
        """Translate an operator through the body that ONNX defines it by."""
        types = [type_proto(value) for value in node.inputs]
        body, opsets = expand_function(proto, types, self.opsets)
        inner = Scope()
        for name, value in zip(body.input, node.inputs, strict=False):
            inner[name] = value
        for name in body.input[len(node.inputs) :]:
            inner[name] = None
        outer_opsets, self.opsets = self.opsets, opsets
        try:
            self.run_nodes(body.node, inner, f"{node.name}/")
        finally:
            self.opsets = outer_opsets
        return [inner.values.get(name) for name in body.output]

    def _sealed(
        self, node: Node, seen: Node, converted: Any, stand_ins: dict[Any, Any] | None = None
    ) -> list[Value]:
        """Seal what a converter made of `seen`, which is the node or its float32 form."""
        if seen is not node:
            converted = rounded_results(node, seen, converted)
        return self.seal(node, converted, stand_ins)

    def _convert_with_tvm(self, proto: Any, node: Node, seen: Node) -> list[Value]:
        """Convert with TVM's own converter, against variables that stand for the inputs."""
        stand_ins: dict[Any, Any] = {}
        inputs: list[Any] = []
        for position, value in enumerate(seen.inputs):
            if value is None:
                inputs.append(None)
            elif seen.tensor(position).array is not None:
                inputs.append(constant(seen.tensor(position).array))
            else:
                tensor = seen.tensor(position)
                variable = relay.var(f"input{position}", shape=tensor.shape, dtype=tensor.dtype)
                stand_ins[variable] = tensor.expr
                inputs.append(variable)
        opset = self.opsets.get("", 1)
        with cures.let_cure():
            result = cures.convert_onnx_node(proto, inputs, opset)
        return self._sealed(node, seen, result, stand_ins)

    def input_tensor(self, variable: Any, shape: tuple[int, ...], dtype: str) -> Tensor:
        """Return the tensor of a model input; one without elements is known already."""
        if 0 in shape:
            return Tensor.from_array(np.zeros(shape, dtype))
        self.known[variable] = variable
        return Tensor(variable, shape, dtype)

    def seal(
        self, node: Node, converted: Any, stand_ins: dict[Any, Any] | None = None
    ) -> list[Value]:
        """Turn what a converter returned into values with names and types.

        Parameters
        ----------
        converted
            One result or a list: Relay expressions, arrays, tensors, or None.
        stand_ins
            Variables that the expressions use in place of earlier results.
        """
        if not isinstance(converted, (list, tuple)):
            converted = [converted]
        exprs = [item for item in converted if isinstance(item, tvm.relay.Expr)]
        sealed = iter(seal(exprs, node.name, stand_ins or self.known))
        values: list[Value] = []
        for item in converted:
            if isinstance(item, tvm.relay.Expr):
                tensor = self._typed(next(sealed))
                tensor.maker = node
                values.append(tensor)
            elif item is None or isinstance(item, Tensor):
                values.append(item)
            else:
                values.append(Tensor.from_array(item))
        return values

    def _typed(self, expr: Any) -> Tensor:
        if not isinstance(expr, relay.Constant):
            relay.transform.InferTypeLocal(expr)
        tensor = Tensor.from_expr(expr)
        if tensor.array is None:
            self.known[expr] = expr
        return tensor

    def _check_types(self, proto: Any, node: Node, results: Sequence[Value]) -> None:
        """Compare the results' types with those that ONNX infers: the last guard."""
        is_standard = proto.domain in ("", "ai.onnx") and defs.has(proto.op_type)
        is_computed = any(isinstance(r, Tensor) and r.array is None for r in results)
        if not is_standard or not is_computed or node.op_type in STRUCTURES:
            return
        types = {n: type_proto(v) for n, v in zip(proto.input, node.inputs, strict=True) if n}
        data = {
            n: numpy_helper.from_array(np.asarray(v.array), n)
            for n, v in zip(proto.input, node.inputs, strict=True)
            if n
            and isinstance(v, Tensor)
            and v.array is not None
            and is_small(v.array)
            and not v.is_narrow
        }
        schema = defs.get_schema(proto.op_type, node.version, "")
        try:
            inferred = shape_inference.infer_node_outputs(
                schema,
                proto,
                types,
                data,
                opset_imports=[
                    helper.make_opsetid(domain, version) for domain, version in self.opsets.items()
                ],
            )
        except shape_inference.InferenceError as error:
            found = " ".join(str(error).split())[-MESSAGE_CHARACTERS:]
            raise node.refuse("inputs whose types suit the operator", found) from error
        except Exception as error:
            # A missing type or a value of a kind that inference does not take says nothing.
            logger.debug("no types inferred for %s: %s", node.name, error)
            return
        for name, result in zip(proto.output, results, strict=False):
            if name in inferred and isinstance(result, Tensor):
                if node.op_type in WITH_CEIL_MODE and node.attribute("ceil_mode", 0):
                    inferred[name].tensor_type.ClearField("shape")
                why = why_not_of_type(result, inferred[name])
                if why is not None:
                    raise node.refuse("a result of " + why[0], why[1], ASK_SUPPORT)


def is_small(array: Any) -> bool:
    """Tell whether `array` can be shape data; larger ones need not be handed to shape inference."""
    largest_rank = 64
    return bool(array.size <= largest_rank)


def type_proto(value: Value) -> Any:
    """Return the ONNX type of a value."""
    if isinstance(value, Tensor):
        return helper.make_tensor_type_proto(value.element, value.shape)
    if isinstance(value, list) and value:
        item = helper.make_tensor_type_proto(value[0].element, None)
        return helper.make_sequence_type_proto(item)
    return onnx.TypeProto()


def why_not_of_type(tensor: Tensor, inferred: Any) -> tuple[str, str] | None:
    """Return (expected, found) where a translated tensor is not what ONNX infers, else None."""
    if not inferred.HasField("tensor_type"):
        return None
    element = inferred.tensor_type.elem_type
    if STORED_WIDER.get(element) == tensor.dtype:
        tensor.element = element
    if element != tensor.element:
        return f"element type {element_type_name(element)}", element_type_name(tensor.element)
    if not inferred.tensor_type.HasField("shape"):
        return None
    dims = inferred.tensor_type.shape.dim
    fits = len(dims) == tensor.rank and all(
        not dim.HasField("dim_value") or dim.dim_value == size
        for dim, size in zip(dims, tensor.shape, strict=True)
    )
    if fits:
        return None
    shown = [dim.dim_value if dim.HasField("dim_value") else "?" for dim in dims]
    return f"shape {shown}", str(list(tensor.shape))
