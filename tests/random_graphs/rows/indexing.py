"""Operators that look elements up, or overwrite them, by index."""

from __future__ import annotations

import numpy as np

from tests.random_graphs.builder import GraphBuilder


def int64(g: GraphBuilder, numbers: object) -> str:
    """Return a constant of int64."""
    return g.add_constant(np.array(numbers, np.int64))


def draw_gather(g: GraphBuilder) -> None:
    """Look up slices by indices of either sign, constant or computed."""
    data = g.pick_any(min_rank=1, max_rank=4)
    shape = g.shape(data)
    axis = g.draw_axis(len(shape))
    size = shape[axis]
    dtype = g.choose(("int64", "int32"))
    drawn = g.draw_shape(0, 2)
    low = -size if g.chance(0.4) else 0
    indices = g.pick(
        lambda value: (
            value.dtype in ("int32", "int64")
            and value.rank <= 2
            and int(value.array.min()) >= -size
            and int(value.array.max()) < size
        ),
        lambda: g.add_leaf(drawn, dtype, low, size - 1),
    )
    if g.chance(0.4):
        indices = g.add_leaf(drawn, dtype, low, size - 1)
    g.add("Gather", [data, indices], exact=True, axis=axis if g.chance(0.85) else None)


def draw_gather_elements(g: GraphBuilder) -> None:
    """Look up single elements along an axis."""
    data = g.pick_any(min_rank=1, max_rank=4)
    shape = list(g.shape(data))
    axis = g.draw_axis(len(shape))
    size = shape[axis]
    shape[axis] = g.integer(1, 4)
    indices = g.add_leaf(tuple(shape), g.choose(("int64", "int32")), -size, size - 1)
    g.add("GatherElements", [data, indices], exact=True, axis=axis)


def draw_gather_nd(g: GraphBuilder) -> None:
    """Look up by rows of coordinates."""
    data = g.pick_any(min_rank=1, max_rank=4)
    shape = g.shape(data)
    depth = g.integer(1, len(shape))
    rows = g.draw_shape(0, 2)
    columns = [g.rng.integers(-size, size, rows) for size in shape[:depth]]
    g.add("GatherND", [data, int64(g, np.stack(columns, axis=-1))], exact=True)


def draw_scatter_elements(g: GraphBuilder) -> None:
    """Overwrite elements at distinct places along an axis."""
    data = g.pick_float(min_rank=1, max_rank=3, dtypes=("float32",))
    shape = list(g.shape(data))
    axis = g.draw_axis(len(shape))
    size = shape[axis]
    count = g.integer(1, size)
    shape[axis] = count
    order = np.argsort(g.rng.random([*shape[:axis], size, *shape[axis + 1 :]][: len(shape)]), axis)
    if order.shape[axis] != size or axis < 0:
        full = list(g.shape(data))
        order = np.argsort(g.rng.random(full), axis)
    indices = np.take(order, np.arange(count), axis)
    updates = g.add_leaf(tuple(shape))
    g.add("ScatterElements", [data, int64(g, indices), updates], exact=True, axis=axis)


def draw_scatter_nd(g: GraphBuilder) -> None:
    """Overwrite distinct rows."""
    data = g.pick_float(min_rank=1, max_rank=3, dtypes=("float32",))
    shape = g.shape(data)
    rows = g.rng.permutation(shape[0])[: g.integer(1, shape[0])]
    updates = g.add_leaf((len(rows), *shape[1:]))
    g.add("ScatterND", [data, int64(g, rows[:, None]), updates], exact=True)
