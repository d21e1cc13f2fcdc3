"""Products of matrices, and recurrent layers."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.random_graphs.builder import GraphBuilder
from tests.random_graphs.rows.row import Row

RECURRENT_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# Around the widths of vectors and register tiles, and far from them.
COLUMNS = (1, 2, 3, 5, 8, 16, 24, 25, 48)
EINSUMS = (
    ("bij,bjk->bik", 3),
    ("ij,jk->ik", 2),
    ("bhij,bhkj->bhik", 4),
    ("ij,ij->i", 2),
    ("bij,bkj->bki", 3),
)


def draw_matmul(g: GraphBuilder) -> None:
    """Multiply matrices: with a constant, a batch of its own, a broadcast batch, or a vector."""
    first = g.pick_float(min_rank=1, max_rank=4)
    shape, dtype = g.shape(first), g.values[first].dtype
    inner, columns = shape[-1], g.choose(COLUMNS)
    form = g.choose(("matrix", "matrix", "batch", "vector", "broadcast"))
    other: tuple[int, ...] = (inner, columns)
    if form == "vector":
        other = (inner,)
    elif form == "batch" and len(shape) > 2:
        other = (*shape[:-2], inner, columns)
    elif form == "broadcast" and len(shape) > 2:
        batch = tuple(1 if g.chance(0.5) else size for size in shape[:-2])
        other = (*batch[g.integer(0, len(batch)) :], inner, columns)

    operand = (
        g.pick(
            lambda value: value.shape == other and value.dtype == dtype,
            lambda: g.add_leaf(other, dtype, -0.5, 0.5),
        )
        if g.chance(0.3)
        else g.add_leaf(other, dtype, -0.5, 0.5)
    )
    g.add("MatMul", [first, operand])


def draw_gemm(g: GraphBuilder) -> None:
    """alpha * A' * B' + beta * C, every flag and every broadcast of C."""
    first = g.pick_float(min_rank=2, max_rank=2, dtypes=("float32",))
    is_transposed_a, is_transposed_b = g.chance(0.3), g.chance(0.5)
    shape = g.shape(first)
    rows, inner = shape[::-1] if is_transposed_a else shape
    columns = g.choose(COLUMNS)
    second_shape = (columns, inner) if is_transposed_b else (inner, columns)
    operands = [first, g.add_leaf(second_shape, low=-0.5, high=0.5)]
    if g.chance(0.8):
        bias = g.choose(((columns,), (rows, columns), (1, columns), (rows, 1), (), (1,)))
        operands.append(g.add_leaf(bias))
    g.add(
        "Gemm",
        operands,
        transA=int(is_transposed_a) or None,
        transB=int(is_transposed_b) or None,
        alpha=g.choose((None, 1.0, 0.5)),
        beta=g.choose((None, 1.0, 0.25)),
    )


def draw_einsum(g: GraphBuilder) -> None:
    """Multiply and sum by one of a few equations."""
    equation, rank = g.choose(EINSUMS)
    first = g.pick_float(min_rank=rank, max_rank=rank, dtypes=("float32",))
    left, right = equation.split("->")[0].split(",")
    sizes = dict(zip(left, g.shape(first), strict=True))
    shape = tuple(sizes.get(letter, 3) for letter in right)
    g.add("Einsum", [first, g.add_leaf(shape, low=-0.5, high=0.5)], equation=equation)


def draw_integer_matmul(g: GraphBuilder) -> None:
    """Multiply 8-bit matrices into int32, with and without zero points."""
    dtype = g.choose(("uint8", "int8"))
    shape = g.draw_shape(2, 3)
    first = g.pick(
        lambda value: value.dtype == dtype and value.rank in (2, 3),
        lambda: g.add_input(shape, dtype, 0, 20),
    )
    inner = g.shape(first)[-1]
    # ONNX Runtime has no kernel for a signed matrix times an unsigned one.
    second_dtype = g.choose(("uint8", "int8")) if dtype == "uint8" else "int8"
    second = g.add_constant(g.draw_array((inner, g.integer(1, 8)), second_dtype, 0, 20))
    operands = [first, second]
    if g.chance(0.6):
        operands.append(g.add_constant(np.array(g.integer(0, 9)), dtype))
        if g.chance(0.6):
            operands.append(g.add_constant(np.array(g.integer(0, 9)), second_dtype))
    g.add("MatMulInteger", operands, exact=True)


def draw_recurrent(operator: str, g: GraphBuilder) -> None:
    """Run a short recurrent layer, forward, backward or both."""
    data = g.pick_float(min_rank=3, max_rank=3, low=-10, high=10, dtypes=("float32",))
    features = g.shape(data)[2]
    hidden, gates = g.choose((2, 3, 4)), RECURRENT_GATES[operator]
    direction = g.choose(("forward", "reverse", "bidirectional"))
    directions = 2 if direction == "bidirectional" else 1

    def weights(*shape: int) -> str:
        return g.add_constant(g.draw_array((directions, *shape), "float32", -0.6, 0.6))

    operands = [data, weights(gates * hidden, features), weights(gates * hidden, hidden)]
    if g.chance(0.7):
        operands.append(weights(2 * gates * hidden))
    outputs = 3 if operator == "LSTM" else 2
    attributes = {"hidden_size": hidden, "direction": direction}
    if operator == "GRU":
        attributes["linear_before_reset"] = g.choose((None, 0, 1))
    g.add(operator, operands, outputs=outputs, **attributes)


ROWS: tuple[Row, ...] = (
    Row("MatMul", draw_matmul, weight=5),
    Row("Gemm", draw_gemm, weight=3),
    Row("Einsum", draw_einsum, since=12),
    Row("MatMulInteger", draw_integer_matmul),
    *(Row(name, partial(draw_recurrent, name), weight=0.5) for name in RECURRENT_GATES),
)
