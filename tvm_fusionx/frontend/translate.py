"""Walk an ONNX graph once, node by node, making Relay expressions of known type.

Every value has a static shape from the moment it exists, so a shape-computing node is evaluated on
the spot and never reaches Relay, and type inference looks at the new calls of one node only. The
time is linear in the number of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx._tvm import cures
from tvm_fusionx._tvm.onnx_importer import convert_onnx_node
from tvm_fusionx._tvm.type_errors import plain_message
from tvm_fusionx.ecg.block_calls import STEERS
from tvm_fusionx.errors import FusionXError, UnsupportedOperatorError
from tvm_fusionx.frontend.binding import INNER_VARIABLE
from tvm_fusionx.frontend.converters import CONVERTERS
from tvm_fusionx.frontend.converters.quantization import is_quantized_matrix
from tvm_fusionx.frontend.converters.registry import open_way
from tvm_fusionx.frontend.element_types import MOVES, NARROW_OPERATORS, element_type_name
from tvm_fusionx.frontend.evaluate import evaluate
from tvm_fusionx.frontend.functions import expand_function, expand_local_function
from tvm_fusionx.frontend.half_precision import (
    evaluated_in_single,
    is_computed_in_single,
    rounded_results,
    with_single_inputs,
)
from tvm_fusionx.frontend.inferred_types import check_types, inferred_types, type_proto
from tvm_fusionx.frontend.node import ASK_SUPPORT, DOES_NOT_FIT, IF_IT_IS_RIGHT, Node
from tvm_fusionx.frontend.schemas import (
    defaults_of,
    read_attributes,
    schema_of,
    why_not_of_schema,
)
from tvm_fusionx.frontend.scope import Scope
from tvm_fusionx.frontend.seal import seal
from tvm_fusionx.frontend.sort_nodes import EXPORT_AGAIN
from tvm_fusionx.frontend.structures import STRUCTURES
from tvm_fusionx.frontend.support import how_translated, qualified_name
from tvm_fusionx.frontend.tensors import array_of
from tvm_fusionx.frontend.values import DynamicShapeError, Tensor, Value, constant


class Translation:
    """The state of one ``from_onnx`` call.

    Parameters
    ----------
    opsets
        Opset version per domain.
    heard
        What TVM said about types, newest last; see :mod:`tvm_fusionx._tvm.type_errors`.
    functions
        The model's own, by domain and name.
    """

    def __init__(
        self,
        opsets: Mapping[str, int],
        heard: list[str] | None = None,
        functions: Mapping[tuple[str, str], Any] | None = None,
    ) -> None:
        self.opsets = dict(opsets)
        # Expressions of earlier nodes, each standing for itself: where naming and folding stop.
        self.known: dict[Any, Any] = {}
        self.heard = [] if heard is None else heard
        self.functions = functions or {}
        # Functions of the module beside ``main``: branches and bodies that are chosen by data.
        self.beside: dict[Any, Any] = {}
        self._calling: list[tuple[str, str]] = []
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
        value = Tensor.from_array(array_of(tensor, f"initializer {tensor.name!r}"))
        value.element = tensor.data_type
        return value

    def _translate(self, proto: Any, scope: Scope, prefix: str) -> Sequence[Value]:
        op_type = qualified_name(proto)
        inputs = [scope[name] if name else None for name in proto.input]
        name = self.unique_name(prefix + proto.name if proto.name else "", proto.op_type)
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        opset = self.opsets.get(domain, 1)
        schema = schema_of(proto.op_type, domain, opset)
        version = opset if schema is None else int(schema.since_version)
        names = (list(proto.output), list(proto.input))
        node = Node(name, op_type, version, {}, inputs, *names, defaults_of(schema))
        try:
            self._check_node(proto, node, schema)
            results = self._results(proto, node, scope)
            if node.op_type in MOVES:
                keep_element_type(node.inputs[0], results)
            if node.op_type not in STRUCTURES:
                check_types(proto, node, results, self.opsets)
        except FusionXError:
            raise
        except DynamicShapeError as error:
            raise node.refuse(
                "outputs whose shapes are known while compiling",
                f"{error}, which depends on the data",
            ) from error
        except Exception as error:
            # TVM's converters and type relations raise many types; the user needs one. ONNX's own
            # inference says best what is wrong with inputs that do not fit.
            inferred_types(proto, node, self.opsets)
            raise node.refuse(
                f"attributes and shapes that opset {version} translates",
                plain_message(error, self.heard),
                f"{DOES_NOT_FIT} {IF_IT_IS_RIGHT}",
            ) from error
        return results

    def _check_node(self, proto: Any, node: Node, schema: Any) -> None:
        node.attributes = read_attributes(proto)
        node.elements = {a.name: a.t.data_type for a in proto.attribute if a.HasField("t")}
        why = why_not_of_schema(proto, schema)
        if why is not None:
            raise node.refuse(*why, EXPORT_AGAIN)
        self._check_narrow_inputs(node)

    def _results(self, proto: Any, node: Node, scope: Scope) -> Sequence[Value]:
        if (proto.domain, proto.op_type) in self.functions:
            return self._call(proto, node)
        if node.op_type in STRUCTURES:
            return STRUCTURES[node.op_type](self, node, scope)
        known = None if is_quantized_matrix(node) else self._evaluate(proto, node)
        if known is not None:
            return known
        open_shapes = open_way(node)
        if open_shapes is not None:
            return self.seal(node, open_shapes.convert(node))
        way = how_translated(proto, node.version)
        seen = with_single_inputs(node) if is_computed_in_single(node) else node
        if way == "converter":
            return self._sealed(node, seen, CONVERTERS[node.op_type].convert(seen))
        if way == "function":
            return self._expand(proto, node)
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
                    "Export the model in float32, float16, bfloat16 or int8.",
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
        results = evaluated_in_single(
            node.op_type, arrays, lambda known: evaluate(proto, known, self.opsets)
        )
        return None if results is None else [Tensor.from_array(array) for array in results]

    def _call(self, proto: Any, node: Node) -> list[Value]:
        """Translate a call of one of the model's own functions."""
        key = (proto.domain, proto.op_type)
        if key in self._calling:
            raise node.refuse("functions that do not call themselves", node.op_type)
        self._calling.append(key)
        try:
            return self._run_body(node, *expand_local_function(proto, self.functions[key]))
        finally:
            self._calling.pop()

    def _expand(self, proto: Any, node: Node) -> list[Value]:
        """Translate an operator through the body that ONNX defines it by."""
        types = [type_proto(value) for value in node.inputs]
        return self._run_body(node, *expand_function(proto, types, self.opsets))

    def _run_body(self, node: Node, body: Any, opsets: dict[str, int]) -> list[Value]:
        inner = Scope()
        for name, value in zip(body.input, node.inputs, strict=False):
            inner[name] = value
        for name in body.input[len(node.inputs) :]:
            inner[name] = None
        # A body without an opset of its own for a domain, as of FlexAttention, uses the model's.
        outer_opsets, self.opsets = self.opsets, {**self.opsets, **opsets}
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
            result = convert_onnx_node(proto, inputs, opset)
        return self._sealed(node, seen, result, stand_ins)

    def input_tensor(self, variable: Any, shape: tuple[int, ...], dtype: str) -> Tensor:
        """Return the tensor of a model input; one without elements is known already."""
        if 0 in shape:
            return Tensor.from_array(np.zeros(shape, dtype))
        self.known[variable] = variable
        return Tensor(variable, shape, dtype)

    def inner_variable(self, name: str, dims: Sequence[int | None], dtype: str) -> Tensor:
        """Return a variable of a function of the module beside ``main``."""
        tensor = Tensor(None, tuple(dims), dtype)
        variable = relay.Var(INNER_VARIABLE + name, tensor.relay_type)
        self.known[variable] = variable
        return Tensor(variable, tensor.dims, dtype)

    def declare(self, name: str, params: Sequence[Any], types: Sequence[Any]) -> Any:
        """Return the name of a function that is to follow."""
        wanted = "".join(letter if letter.isalnum() else "_" for letter in name)
        kind = relay.FuncType([param.type_annotation for param in params], relay.TupleType(types))
        return relay.GlobalVar(self.unique_name(f"fusionx_{wanted}", "fusionx"), kind)

    def define(
        self, name: str, params: Sequence[Any], results: Sequence[Any], types: Sequence[Any]
    ) -> Any:
        """Add a function that returns a tuple to the module; return its name, which has a type."""
        variable = self.declare(name, params, types)
        body = relay.Tuple(list(results))
        self.beside[variable] = relay.Function(list(params), body, relay.TupleType(types))
        return variable

    def steer(self, variable: Any, params: Sequence[Any], body: Any) -> None:
        """Add a declared function whose body is control flow."""
        result = variable.checked_type.ret_type
        func = relay.Function(list(params), body, result)
        self.beside[variable] = func.with_attr(STEERS, 1)

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


def keep_element_type(source: Value, results: Sequence[Value]) -> None:
    """Mark what is moved as of the element type it came from, which its dtype may not tell."""
    if not isinstance(source, Tensor) or not source.is_narrow:
        return
    for result in results:
        if isinstance(result, Tensor) and result.dtype == source.dtype:
            result.element = source.element
