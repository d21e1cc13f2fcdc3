"""Operators that fold axes, or run along one."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.random_graphs.builder import GraphBuilder
from tests.random_graphs.rows.row import Row

# The opset in which the axes of each reduction became an input.
AXES_AS_INPUT = {"ReduceSum": 13}
AXES_AS_INPUT_DEFAULT = 18

# Operators, and the range of numbers on which they stay tame.
REDUCTIONS = {
    "ReduceSum": (-1e3, 1e3),
    "ReduceMean": (-1e3, 1e3),
    "ReduceMax": (-1e3, 1e3),
    "ReduceMin": (-1e3, 1e3),
    "ReduceProd": (0.4, 1.8),
    "ReduceL1": (-1e2, 1e2),
    "ReduceL2": (-1e2, 1e2),
    "ReduceLogSum": (0.2, 1e2),
    "ReduceLogSumExp": (-8, 8),
    "ReduceSumSquare": (-10, 10),
}
SELECTING = ("ReduceMax", "ReduceMin")


def draw_reduction(operator: str, g: GraphBuilder) -> None:
    """Reduce over several axes, one, all, or none, in the form of the graph's opset."""
    low, high = REDUCTIONS[operator]
    is_integer = operator in ("ReduceSum", "ReduceMax", "ReduceMin") and g.chance(0.15)
    data = (
        g.pick_integer(max_rank=4, low=-50, high=50)
        if is_integer
        else g.pick_float(max_rank=5, low=low, high=high, dtypes=("float32",))
    )
    rank = len(g.shape(data))
    axes = g.draw_axes(rank) if rank and g.chance(0.85) else None
    keepdims = g.choose((None, 0, 1))
    exact = operator in SELECTING or is_integer
    if g.opset < AXES_AS_INPUT.get(operator, AXES_AS_INPUT_DEFAULT):
        g.add(operator, [data], exact=exact, axes=axes, keepdims=keepdims)
        return
    operands = [data]
    noop = None
    if axes is not None:
        operands.append(g.add_constant(np.array(axes, np.int64)))
        noop = g.choose((None, 0, 1))
    else:
        noop = g.choose((None, 0, 1)) if not is_integer else None
    g.add(operator, operands, exact=exact, keepdims=keepdims, noop_with_empty_axes=noop)


def draw_extreme_index(operator: str, g: GraphBuilder) -> None:
    """Find the index of the largest or smallest number along an axis."""
    data = g.pick_float(min_rank=1, max_rank=4, dtypes=("float32",))
    last = g.choose((None, 0, 1)) if g.opset >= 12 else None
    axis = g.draw_axis(len(g.shape(data))) if g.chance(0.8) else None
    keepdims = g.choose((None, 0, 1))
    g.add(operator, [data], exact=True, axis=axis, keepdims=keepdims, select_last_index=last)


def draw_cumulative_sum(g: GraphBuilder) -> None:
    """Sum up along one axis, in either direction."""
    is_float = g.chance(0.8)
    data = g.pick_float(min_rank=1, dtypes=("float32",)) if is_float else g.pick_integer(1)
    axis = g.add_constant(np.array(g.draw_axis(len(g.shape(data))), g.choose(("int32", "int64"))))
    g.add(
        "CumSum",
        [data, axis],
        exact=not is_float,
        exclusive=g.choose((None, 0, 1)),
        reverse=g.choose((None, 0, 1)),
    )


def draw_top_k(g: GraphBuilder) -> None:
    """Find the k largest or smallest along an axis, and where they are."""
    data = g.pick_float(min_rank=1, max_rank=4, dtypes=("float32",))
    shape = g.shape(data)
    axis = g.draw_axis(len(shape))
    k = g.add_constant(np.array([g.integer(1, shape[axis])], np.int64))
    largest = g.choose((None, 0, 1))
    g.add("TopK", [data, k], outputs=2, exact=True, axis=axis, largest=largest)


def draw_softmax(operator: str, g: GraphBuilder) -> None:
    """Normalise along an axis; before opset 13 along all axes from it on."""
    data = g.pick_float(min_rank=1, max_rank=4, low=-30, high=30, dtypes=("float32",))
    axis = g.draw_axis(len(g.shape(data))) if g.chance(0.8) else None
    g.add(operator, [data], exact=operator == "Hardmax", axis=axis)


def draw_lp_normalization(g: GraphBuilder) -> None:
    """Divide by the L1 or L2 norm along an axis."""
    data = g.pick_float(min_rank=1, max_rank=4, dtypes=("float32",))
    g.add("LpNormalization", [data], axis=g.draw_axis(len(g.shape(data))), p=g.choose((None, 1, 2)))


def draw_layer_normalization(g: GraphBuilder) -> None:
    """Normalise over the last axes, then scale and shift."""
    data = g.pick_float(min_rank=1, max_rank=4, dtypes=("float32",))
    shape = g.shape(data)
    axis = g.draw_axis(len(shape)) if g.chance(0.6) else None
    kept = shape[-1 if axis is None else axis :]
    scale = g.add_constant(g.draw_array(kept, "float32", 0.5, 1.5))
    operands = [data, scale]
    if g.chance(0.8):
        operands.append(g.add_constant(g.draw_array(kept, "float32", -0.5, 0.5)))
    epsilon = g.choose((None, 1e-3, 1e-5))
    g.add("LayerNormalization", operands, axis=axis, epsilon=epsilon)


ROWS: tuple[Row, ...] = (
    *(Row(name, partial(draw_reduction, name), weight=1.2) for name in REDUCTIONS),
    Row("ArgMax", partial(draw_extreme_index, "ArgMax")),
    Row("ArgMin", partial(draw_extreme_index, "ArgMin")),
    Row("CumSum", draw_cumulative_sum),
    Row("TopK", draw_top_k),
    Row("Softmax", partial(draw_softmax, "Softmax"), weight=2.5),
    Row("LogSoftmax", partial(draw_softmax, "LogSoftmax")),
    Row("Hardmax", partial(draw_softmax, "Hardmax"), weight=0.6),
    Row("LpNormalization", draw_lp_normalization),
    Row("LayerNormalization", draw_layer_normalization, since=17, weight=2),
)
