"""Operators that move, copy, cut and join without computing."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.random_graphs.builder import MOST_ELEMENTS, GraphBuilder
from tests.random_graphs.evaluate import RejectedError
from tests.random_graphs.rows.indexing import (
    draw_gather,
    draw_gather_elements,
    draw_gather_nd,
    draw_scatter_elements,
    draw_scatter_nd,
    int64,
)
from tests.random_graphs.rows.row import Row

FAR_END = 2**63 - 1  # how exporters write "to the end" in Slice


def factor(g: GraphBuilder, elements: int) -> list[int]:
    """Return sizes, in random order, whose product is `elements`."""
    sizes = [1] * g.integer(1, 4)
    rest, divisor = elements, 2
    while rest > 1:
        while rest % divisor:
            divisor += 1
        sizes[g.integer(0, len(sizes) - 1)] *= divisor
        rest //= divisor
    return sizes


def draw_reshape(g: GraphBuilder) -> None:
    """Reshape by plain sizes, with a -1, with zeros that copy, or to a scalar."""
    data = g.pick_any()
    shape = list(g.shape(data))
    target = factor(g, int(np.prod(shape)))
    if np.prod(shape) == 1 and g.chance(0.3):
        target = []
    elif shape and g.chance(0.25):
        target = [0, *factor(g, int(np.prod(shape[1:])))]
        if g.chance(0.5):
            target[-1] = -1
    elif g.chance(0.4):
        target[g.integer(0, len(target) - 1)] = -1
    g.add("Reshape", [data, int64(g, target)], exact=True)


def draw_reshape_by_shape(g: GraphBuilder) -> None:
    """Compute a shape from a tensor's own, as exporters do, and reshape to it."""
    data = g.pick_float(min_rank=2, max_rank=4)
    rank = len(g.shape(data))
    (shape,) = g.add("Shape", [data], exact=True)
    kept = g.integer(0, rank - 1)
    (size,) = g.add("Gather", [shape, int64(g, kept)], exact=True, axis=0)
    axes = int64(g, [0])
    if g.opset >= 13:
        (row,) = g.add("Unsqueeze", [size, axes], exact=True)
    else:
        (row,) = g.add("Unsqueeze", [size], exact=True, axes=[0])
    (target,) = g.add("Concat", [row, int64(g, [-1])], exact=True, axis=0)
    g.add("Reshape", [data, target], exact=True)


def draw_transpose(g: GraphBuilder) -> None:
    """Permute the axes, or reverse them by leaving the permutation out."""
    data = g.pick_any(min_rank=1)
    order = [int(axis) for axis in g.rng.permutation(len(g.shape(data)))]
    g.add("Transpose", [data], exact=True, perm=order if g.chance(0.85) else None)


def draw_flatten(g: GraphBuilder) -> None:
    """Make a matrix of a tensor."""
    data = g.pick_any(min_rank=1)
    rank = len(g.shape(data))
    g.add("Flatten", [data], exact=True, axis=g.integer(-rank, rank) if g.chance(0.7) else None)


def draw_squeeze(g: GraphBuilder) -> None:
    """Drop axes of size 1: named ones, or all."""
    data = g.pick(
        lambda value: 1 in value.shape,
        lambda: g.add_input((1, *g.draw_shape(0, 2), 1)),
    )
    shape = g.shape(data)
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    axes = sorted(ones[: g.integer(1, len(ones))]) if g.chance(0.8) else None
    if axes and g.chance(0.3):
        axes = [axis - len(shape) for axis in axes]
    if axes is None or g.opset < 13:
        g.add("Squeeze", [data], exact=True, axes=axes)
    else:
        g.add("Squeeze", [data, int64(g, axes)], exact=True)


def draw_unsqueeze(g: GraphBuilder) -> None:
    """Insert axes of size 1."""
    data = g.pick_any(max_rank=3)
    rank = len(g.shape(data)) + 2
    axes = sorted(int(axis) for axis in g.rng.permutation(rank)[:2])
    if g.chance(0.5):
        axes = [g.draw_axis(rank - 1)]
    if g.opset < 13:
        g.add("Unsqueeze", [data], exact=True, axes=axes)
    else:
        g.add("Unsqueeze", [data, int64(g, axes)], exact=True)


def draw_concat(g: GraphBuilder) -> None:
    """Join tensors along an axis; the same tensor may come twice."""
    first = g.pick_any(min_rank=1)
    value = g.values[first]
    axis = g.draw_axis(value.rank)
    place = axis % value.rank

    def is_alike(other: object) -> bool:
        shape, dtype = other.shape, other.dtype  # type: ignore[attr-defined]
        return bool(
            dtype == value.dtype
            and len(shape) == value.rank
            and all(
                a == b
                for i, (a, b) in enumerate(zip(shape, value.shape, strict=True))
                if i != place
            )
        )

    def make() -> str:
        shape = list(value.shape)
        shape[place] = g.integer(1, 4)
        return g.add_leaf(tuple(shape), value.dtype)

    operands = [first, *(g.pick(is_alike, make) for _ in range(g.integer(1, 3)))]
    order = g.rng.permutation(len(operands))
    g.add("Concat", [operands[int(i)] for i in order], exact=True, axis=axis)


def draw_split(g: GraphBuilder) -> None:
    """Cut along an axis, into equal parts or parts of given sizes."""
    data = g.pick(
        lambda value: any(size > 1 for size in value.shape) and value.dtype != "bool",
        lambda: g.add_input((*g.draw_shape(0, 2), 6)),
    )
    shape = g.shape(data)
    axis = g.choose([i for i, size in enumerate(shape) if size > 1])
    size = shape[axis]
    axis = axis - len(shape) if g.chance(0.3) else axis
    parts = g.choose([count for count in range(2, 5) if count <= size])
    cuts = sorted(int(cut) + 1 for cut in g.rng.permutation(size - 1)[: parts - 1])
    sizes = [int(part) for part in np.diff([0, *cuts, size])]
    if size % parts == 0 and g.chance(0.5):
        count = parts if g.opset >= 18 else None
        g.add("Split", [data], outputs=parts, exact=True, axis=axis, num_outputs=count)
    elif g.opset < 13:
        g.add("Split", [data], outputs=parts, exact=True, axis=axis, split=sizes)
    else:
        g.add("Split", [data, int64(g, sizes)], outputs=parts, exact=True, axis=axis)


def draw_slice(g: GraphBuilder) -> None:
    """Cut by starts and ends of either sign, beyond the end too, with steps of either sign."""
    data = g.pick_any(min_rank=1)
    shape = g.shape(data)
    axes = g.draw_axes(len(shape))
    starts, ends, steps = [], [], []
    for axis in axes:
        size = shape[axis]
        low = g.integer(0, size - 1)
        high = g.integer(low + 1, size)
        step = g.choose((1, 1, 1, 2, -1, -2))
        if step > 0:
            start, end = low, g.choose((high, FAR_END)) if high == size else high
        else:
            start, end = high - 1, low - 1 if low else -FAR_END
        if g.chance(0.3) and 0 < end < size:
            end -= size
        starts.append(start - size if g.chance(0.3) else start)
        ends.append(end)
        steps.append(step)
    operands = [data, int64(g, starts), int64(g, ends)]
    is_plain = axes == list(range(len(axes)))
    if any(step != 1 for step in steps):
        operands += [int64(g, axes), int64(g, steps)]
    elif not is_plain or g.chance(0.5):
        operands.append(int64(g, axes))
    g.add("Slice", operands, exact=True)


def draw_pad(g: GraphBuilder) -> None:
    """Pad with a number, by reflection or by the edge; a negative pad crops."""
    data = g.pick_float(min_rank=1, max_rank=4, dtypes=("float32",))
    shape = g.shape(data)
    mode = g.choose((None, "constant", "reflect", "edge"))
    most = [size - 1 if mode == "reflect" else 2 for size in shape]
    before, after = ([min(g.integer(0, 2), limit) for limit in most] for _ in range(2))
    if mode in (None, "constant") and g.chance(0.2):
        axis = g.integer(0, len(shape) - 1)
        before[axis] = -min(1, shape[axis] - 1)
    operands = [data]
    axes = list(range(len(shape)))
    if g.opset >= 18 and g.chance(0.4):
        axes = sorted({axis % len(shape) for axis in g.draw_axes(len(shape))})
    operands.append(int64(g, [before[i] for i in axes] + [after[i] for i in axes]))
    is_subset = len(axes) < len(shape)
    if mode in (None, "constant") and (is_subset or g.chance(0.5)):
        operands.append(g.add_constant(np.array(g.choose((0.0, 0.5, -1.5)), np.float32)))
    if is_subset:
        operands += [""] * (3 - len(operands))
        operands.append(int64(g, axes))
    g.add("Pad", operands, exact=True, mode=mode)


def draw_expand(g: GraphBuilder) -> None:
    """Broadcast to a shape, which may be of lower rank or have ones."""
    data = g.pick_any(max_rank=3)
    shape = g.shape(data)
    target = [g.choose((2, 3, 4)) if size == 1 else g.choose((size, 1)) for size in shape]
    if g.chance(0.3):
        target = [g.choose((1, 2, 3)), *target]
    g.add("Expand", [data, int64(g, target)], exact=True)


def draw_tile(g: GraphBuilder) -> None:
    """Repeat along axes."""
    data = g.pick_any(min_rank=1, max_rank=4)
    repeats = [g.choose((1, 1, 2, 3)) for _ in g.shape(data)]
    g.add("Tile", [data, int64(g, repeats)], exact=True)


def draw_depth_to_space(g: GraphBuilder) -> None:
    """Turn channels into space."""
    data = g.pick(
        lambda value: value.rank == 4 and value.dtype == "float32" and value.shape[1] % 4 == 0,
        lambda: g.add_input((g.integer(1, 2), 4 * g.integer(1, 2), *g.draw_shape(2, 2))),
    )
    g.add("DepthToSpace", [data], exact=True, blocksize=2, mode=g.choose((None, "DCR", "CRD")))


def draw_space_to_depth(g: GraphBuilder) -> None:
    """Turn space into channels."""
    data = g.pick(
        lambda value: (
            value.rank == 4
            and value.dtype == "float32"
            and value.shape[2] % 2 == value.shape[3] % 2 == 0
        ),
        lambda: g.add_input((g.integer(1, 2), g.integer(1, 3), 4, 6)),
    )
    g.add("SpaceToDepth", [data], exact=True, blocksize=2)


def draw_one_hot(g: GraphBuilder) -> None:
    """Spread indices to one-hot rows."""
    indices = g.pick_integer(max_rank=2, dtypes=("int64",), low=0, high=5)
    depth = g.add_constant(np.array(g.integer(4, 6)), "int64")
    values = g.add_constant(np.array([g.choose((0.0, 0.1)), 1.0], np.float32))
    axis = g.draw_axis(len(g.shape(indices)) + 1)
    g.add("OneHot", [indices, depth, values], exact=True, axis=axis if g.chance(0.6) else None)


def draw_triangle(g: GraphBuilder) -> None:
    """Keep the upper or the lower triangle."""
    data = g.pick_float(min_rank=2, max_rank=4)
    operands = [data]
    if g.chance(0.6):
        operands.append(int64(g, g.integer(-2, 2)))
    g.add("Trilu", operands, exact=True, upper=g.choose((None, 0, 1)))


def draw_eye(g: GraphBuilder) -> None:
    """Build a unit matrix of the shape of another matrix."""
    data = g.pick_float(min_rank=2, max_rank=2, dtypes=("float32",))
    g.add("EyeLike", [data], exact=True, k=g.choose((None, 0, 1, -1)))


def draw_range(g: GraphBuilder) -> None:
    """Count from constants."""
    dtype = g.choose(("float32", "int64", "int32"))
    start, step, count = g.integer(-3, 3), g.choose((1, 2, -1)), g.integer(1, 8)
    numbers = (start, start + step * count, step)
    g.add("Range", [g.add_constant(np.array(n), dtype) for n in numbers], exact=True)


def draw_shape(g: GraphBuilder) -> None:
    """Return the shape, or part of it since opset 15."""
    data = g.pick_any(min_rank=1)
    bounds = {}
    if g.opset >= 15 and g.chance(0.5):
        bounds = {"start": g.choose((0, -1)), "end": g.choose((None, 1)) if g.chance(0.3) else None}
        if bounds["start"] == -1:
            bounds["end"] = None
    g.add("Shape", [data], exact=True, **bounds)


def draw_reverse_sequence(g: GraphBuilder) -> None:
    """Reverse the first elements of each row."""
    data = g.pick_float(min_rank=2, max_rank=3, dtypes=("float32",))
    shape = g.shape(data)
    time_axis = g.choose((0, 1))
    lengths = g.rng.integers(1, shape[time_axis] + 1, shape[1 - time_axis])
    g.add(
        "ReverseSequence",
        [data, int64(g, lengths)],
        exact=True,
        time_axis=time_axis,
        batch_axis=1 - time_axis,
    )


def draw_size(g: GraphBuilder) -> None:
    """Count the elements."""
    g.add("Size", [g.pick_any(min_rank=1)], exact=True)


def limited(draw: object, g: GraphBuilder) -> None:
    """Draw, but not from a tensor that is already large."""
    if all(value.array.size > MOST_ELEMENTS // 4 for value in g.values.values()):
        raise RejectedError("every value is large already")
    draw(g)  # type: ignore[operator]


ROWS: tuple[Row, ...] = (
    Row("Reshape", draw_reshape, weight=3),
    Row("Reshape", draw_reshape_by_shape),
    Row("Transpose", draw_transpose, weight=3),
    Row("Flatten", draw_flatten),
    Row("Squeeze", draw_squeeze, weight=1.5),
    Row("Unsqueeze", draw_unsqueeze, weight=1.5),
    Row("Concat", draw_concat, weight=2.5),
    Row("Split", draw_split, weight=2),
    Row("Slice", draw_slice, weight=3),
    Row("Pad", draw_pad, weight=1.5),
    Row("Gather", draw_gather, weight=2),
    Row("GatherElements", draw_gather_elements),
    Row("GatherND", draw_gather_nd),
    Row("ScatterElements", draw_scatter_elements),
    Row("ScatterND", draw_scatter_nd),
    Row("Expand", partial(limited, draw_expand), weight=1.5),
    Row("Tile", partial(limited, draw_tile)),
    Row("DepthToSpace", draw_depth_to_space),
    Row("SpaceToDepth", draw_space_to_depth),
    Row("OneHot", draw_one_hot),
    Row("Trilu", draw_triangle, since=14),
    Row("EyeLike", draw_eye, weight=0.5),
    Row("Range", draw_range, weight=0.5),
    Row("Shape", draw_shape, weight=0.7),
    Row("Size", draw_size, weight=0.4),
    Row("ReverseSequence", draw_reverse_sequence),
)
