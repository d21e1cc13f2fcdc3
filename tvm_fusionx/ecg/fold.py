"""Evaluate calls whose operands are all constants, at compile time."""

from __future__ import annotations

import logging

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx._tvm.arrays import numpy_of
from tvm_fusionx._tvm.cures import let_cure
from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.ecg.numpy_operators import NotInNumpyError, evaluate
from tvm_fusionx.ecg.relay_attributes import FUNCTION, to_attrs
from tvm_fusionx.ecg.relay_types import arguments
from tvm_fusionx.operators import EXTERN_KERNELS, MappingType, mapping_type_of

logger = logging.getLogger(__name__)

# Folding may grow a constant (a broadcast, a tile) at most to this size; beyond it the call stays.
LARGEST_FOLDED_BYTES = 1 << 24


def fold_constants(graph: Graph) -> int:
    """Replace every call on constants alone by its value; return how many."""
    folded = 0
    for node in graph.calls():
        if not can_fold(node):
            continue
        arrays = [value.array for value in node.operands]
        # numpy is orders of magnitude faster than compiling a kernel to run once.
        results: list[np.ndarray] | None
        try:
            results = evaluate(node, arrays)
        except NotInNumpyError:
            results = _evaluate_with_tvm(node, arrays)
        if results is None:
            continue
        for value, result in zip(node, results, strict=True):
            graph.replace(value, graph.constant(np.asarray(result).reshape(value.shape)))
        folded += 1
    if folded:
        graph.prune()
    return folded


def can_fold(node: Node) -> bool:
    """Tell whether a call is a pure function of constants, and its value not too large."""
    return (
        node.op != FUNCTION
        and mapping_type_of(node.op) is not MappingType.OPAQUE
        and node.op not in EXTERN_KERNELS
        and all(value.is_constant for value in node.operands)
        and node.bytes_out <= max(LARGEST_FOLDED_BYTES, _bytes_in(node))
    )


def _bytes_in(node: Node) -> int:
    return sum(value.type.bytes for value in node.operands)


def _evaluate_with_tvm(node: Node, arrays: list[np.ndarray]) -> list[np.ndarray] | None:
    """Evaluate one call with TVM; None when it cannot be evaluated alone."""
    operands = [relay.const(array, str(array.dtype)) for array in arrays]
    call = relay.Call(
        relay.op.get(node.op), arguments(operands, node.grouping), to_attrs(node.op, node.attrs)
    )
    module = tvm.IRModule.from_expr(relay.Function([], call))
    with let_cure(), tvm.transform.PassContext(opt_level=0):
        try:
            module = relay.transform.FoldConstant()(relay.transform.InferType()(module))
        except tvm.TVMError as error:
            logger.info("%s on constants stays in the graph: %s", node.op, error)
            return None
    body = module["main"].body
    fields = list(body.fields) if isinstance(body, relay.Tuple) else [body]
    if not all(isinstance(field, relay.Constant) for field in fields):
        return None
    return [numpy_of(field.data) for field in fields]
