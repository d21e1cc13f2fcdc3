"""Large products with constant weights by one level of Strassen's scheme: seven for eight.

Both sides are cut into quarters, and sums of quarters are multiplied (V. Strassen, Gaussian
elimination is not optimal, 1969). Those of the weights are made here, once; those of the data and
of the seven results are what it costs.

With quarters ``X`` of the data, ``W`` of the weights and ``Y`` of the result::

    M1 = (X11 + X22) (W11 + W22)    M5 = (X11 + X12) W22
    M2 = (X21 + X22) W11            M6 = (X21 - X11) (W11 + W12)
    M3 = X11 (W12 - W22)            M7 = (X12 - X22) (W21 + W22)
    M4 = X22 (W21 - W11)

    Y11 = M1 + M4 - M5 + M7    Y12 = M3 + M5
    Y21 = M2 + M4              Y22 = M1 - M2 + M3 + M6

Of the variant with fewer additions (Winograd's) one has more loads here, where those of weights
cost nothing, and its rounding errors are larger.
"""

from __future__ import annotations

import math

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.layout.blocked_tensor import reshape
from tvm_fusionx.layout.dense import BATCH_MATMUL, DENSE, MATMUL, by_column, why_not_constant

FLOAT = "float32"

PRODUCTS = frozenset([DENSE, MATMUL, BATCH_MATMUL])

# A product saves an eighth of its multiply-adds. For each element of a quarter of the data it takes
# five sums of two, each with a store; for each of a quarter of the result twelve loads and eight
# sums, and the stores of the seven products and of the result.
SAVED_SHARE = 1 / 8
DATA_OPERATIONS = 5 * 4
RESULT_OPERATIONS = 12 + 8 + 7 + 4
QUARTERS = 4
# With fewer rows each weight is fetched for few products, and seven quarters are seven fourths of
# the weights.
FEWEST_ROWS = 64
# Smaller gains are lost again where sums no longer fuse.
LEAST_GAIN = 3.5

# Quarter of the data and its sign, for each of the seven products.
SIDES: tuple[tuple[tuple[int, int], ...], ...] = (
    ((0, 1), (3, 1)),
    ((2, 1), (3, 1)),
    ((0, 1),),
    ((3, 1),),
    ((0, 1), (1, 1)),
    ((2, 1), (0, -1)),
    ((1, 1), (3, -1)),
)
# The same of the weights.
WEIGHTS: tuple[tuple[tuple[int, int], ...], ...] = (
    ((0, 1), (3, 1)),
    ((0, 1),),
    ((1, 1), (3, -1)),
    ((2, 1), (0, -1)),
    ((3, 1),),
    ((0, 1), (1, 1)),
    ((2, 1), (3, 1)),
)
# Product and its sign, for each quarter of the result.
RESULTS: tuple[tuple[tuple[int, int], ...], ...] = (
    ((0, 1), (3, 1), (4, -1), (6, 1)),
    ((2, 1), (4, 1)),
    ((1, 1), (3, 1)),
    ((0, 1), (1, -1), (2, 1), (5, 1)),
)


def why_not_strassen(node: Node) -> str | None:
    """Return why a call is not computed by seven products, or None."""
    reason = why_not_constant(node)
    if reason is not None:
        return reason
    data, result = node.operands[0], node.outputs[0]
    if result.dtype != FLOAT:
        return f"it is of {result.dtype}"
    rows, depth, columns = math.prod(result.shape[:-1]), data.shape[-1], result.shape[-1]
    odd = [extent for extent in (rows, depth, columns) if extent % 2]
    if odd:
        return f"{odd[0]} cannot be halved"
    if rows < FEWEST_ROWS:
        return f"of {rows} rows, fewer than {FEWEST_ROWS}"
    saved = rows * depth * columns * SAVED_SHARE
    added = DATA_OPERATIONS * rows * depth + RESULT_OPERATIONS * rows * columns
    if saved * QUARTERS < LEAST_GAIN * added:
        return f"{rows} x {depth} by {depth} x {columns} is too small to gain"
    return None


def multiply_by_strassen(graph: Graph) -> dict[str, str | None]:
    """Put seven products of quarters in the place of each large one with constant weights.

    Returns
    -------
    told
        For each product, by its name or number, None, or why it stays.
    """
    told: dict[str, str | None] = {}
    for node in graph.calls():
        reason = why_not_strassen(node)
        if reason is None:
            graph.replace(node[0], _by_quarters(graph, node))
        if node.op in PRODUCTS:
            told[node.name or f"{node.op} {len(told)}"] = reason
    graph.prune()
    return told


def _by_quarters(graph: Graph, node: Node) -> Value:
    data, shape = node.operands[0], node.outputs[0].shape
    rows, depth, columns = math.prod(shape[:-1]), data.shape[-1], shape[-1]
    matrix = reshape(graph, data, (rows, depth))
    quarters = [
        _slice(graph, matrix, (top, left), (top + rows // 2, left + depth // 2))
        for top in (0, rows // 2)
        for left in (0, depth // 2)
    ]
    # Weights lie by column: [columns, depth].
    halves = [np.split(half, 2, axis=1) for half in np.split(by_column(node), 2)]
    blocks = [halves[right][lower] for lower in (0, 1) for right in (0, 1)]
    attrs = default_attributes(DENSE, units=columns // 2, out_dtype=FLOAT)
    products = []
    for number, (side, weight) in enumerate(zip(SIDES, WEIGHTS, strict=True), 1):
        summed = np.sum([sign * blocks[at] for at, sign in weight], axis=0, dtype=FLOAT)
        operands = [_sum(graph, quarters, side), graph.constant(np.ascontiguousarray(summed))]
        name = f"{node.name} {number} of 7" if node.name else ""
        products.append(graph.call(DENSE, operands, attrs, name=name))
    results = [_sum(graph, products, terms) for terms in RESULTS]
    upper = _join(graph, results[:2], 1)
    lower = _join(graph, results[2:], 1)
    return reshape(graph, _join(graph, [upper, lower], 0), shape)


def _sum(graph: Graph, values: list[Value], terms: tuple[tuple[int, int], ...]) -> Value:
    """Return a sum with signs, of which the first is never negative."""
    total = values[terms[0][0]]
    for at, sign in terms[1:]:
        total = graph.call("add" if sign > 0 else "subtract", [total, values[at]])
    return total


def _slice(graph: Graph, value: Value, begin: tuple[int, int], end: tuple[int, int]) -> Value:
    attrs = default_attributes(
        "strided_slice", begin=begin, end=end, strides=(1, 1), slice_mode="end", axes=None
    )
    return graph.call("strided_slice", [value], attrs)


def _join(graph: Graph, values: list[Value], axis: int) -> Value:
    attrs = default_attributes("concatenate", axis=axis)
    return graph.call("concatenate", values, attrs, grouping=(len(values),))
