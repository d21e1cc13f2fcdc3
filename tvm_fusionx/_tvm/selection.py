"""What selects by data: places where a condition holds, boxes that no better one covers, a cut.

The first two have results of the greatest size that is possible, and tell beside how much of it
counts. So they are static where their operands are, and only the cut behind them is not.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay, te, tir

from tvm_fusionx._tvm.registry import register_operator, supply_shape_functions

PLACES = "fusionx.places"
NON_MAX_SUPPRESSION = "fusionx.non_max_suppression"
FIRST_ROWS = "fusionx.first_rows"

# As ``tvm.relay.op.op.OpPattern.OPAQUE``: TVM fuses nothing with them.
OPAQUE = 8

# Corners of a box, and the numbers of one result: image, class, box.
CORNERS = 4
RESULT = 3


def places(flags: Any) -> tuple[Any, Any]:
    """Return where `flags`, a vector of booleans, hold, in order, and how many there are.

    Returns
    -------
    places, count
        int64 expressions of the length of `flags`, zeros behind what counts, and of one element.
    """
    found = relay.Call(tvm.ir.Op.get(PLACES), [flags])
    return relay.TupleGetItem(found, 0), relay.TupleGetItem(found, 1)


def non_max_suppression(
    boxes: Any, scores: Any, most: Any, overlap: Any, least_score: Any
) -> tuple[Any, Any]:
    """Return the boxes of each image and class that no better one covers, as ONNX defines it.

    Parameters
    ----------
    boxes
        float32 ``[images, boxes, 4]``: two opposite corners of each.
    scores
        float32 ``[images, classes, boxes]``.
    most
        int64 ``[1]``: how many boxes are kept of an image and a class.
    overlap, least_score
        float32 ``[1]``: what intersection over union covers, and what scores have to be above.

    Returns
    -------
    selected, count
        int64 expressions ``[images * classes * boxes, 3]``, zeros behind what counts, and ``[1]``.
    """
    operands = [boxes, scores, most, overlap, least_score]
    found = relay.Call(tvm.ir.Op.get(NON_MAX_SUPPRESSION), operands)
    return relay.TupleGetItem(found, 0), relay.TupleGetItem(found, 1)


def first_rows(data: Any, count: Any) -> Any:
    """Return the first rows of `data`, as many as `count`, int64 ``[1]``, says at run time."""
    return relay.Call(tvm.ir.Op.get(FIRST_ROWS), [data, count])


def register_selection() -> None:
    """Make the operators known to Relay, and shapes that TVM cannot tell; idempotent."""
    supply_shape_functions()
    register_operator(
        PLACES,
        {"flags": "A vector of booleans."},
        lambda attrs, inputs, out: _places(inputs[0]),
        pattern=OPAQUE,
        type_relation=_type_of_places,
        schedule=_schedule,
        shape_function=lambda attrs, shapes, ranks: _shape_of_places(shapes[0]),
        shape_reads=[False],
    )
    register_operator(
        NON_MAX_SUPPRESSION,
        {
            "boxes": "Two corners of each box.",
            "scores": "By image, class and box.",
            "most": "Boxes to keep of an image and class.",
            "overlap": "The intersection over union above which a box is covered.",
            "least_score": "What scores must be above.",
        },
        lambda attrs, inputs, out: _non_max_suppression(*inputs),
        pattern=OPAQUE,
        type_relation=_type_of_suppression,
        schedule=_schedule,
        shape_function=lambda attrs, shapes, ranks: _shape_of_suppression(shapes[1]),
        shape_reads=[False] * 5,
    )
    register_operator(
        FIRST_ROWS,
        {"data": "The rows.", "count": "How many to take."},
        lambda attrs, inputs, out: _first_rows(inputs[0]),
        pattern=OPAQUE,
        type_relation=_type_of_rows,
        schedule=_schedule,
        shape_function=lambda attrs, known, ranks: _shape_of_rows(*known),
        shape_reads=[False, True],
    )


def _schedule(attrs: Any, outputs: Any, target: Any) -> Any:
    return te.create_schedule([output.op for output in outputs])


def _type_of_places(types: Any, attrs: Any) -> Any:
    (flags,) = types
    if not isinstance(flags, tvm.ir.TensorType):
        return None
    return tvm.ir.TupleType(
        [tvm.ir.TensorType(flags.shape, "int64"), tvm.ir.TensorType([1], "int64")]
    )


def _shape_of_places(flags: Any) -> list[Any]:
    return [_extents((1,), lambda i: flags[0]), _one()]


def _one() -> Any:
    return _extents((1,), lambda i: tir.const(1, "int64"))


def _extents(shape: Any, extent: Any) -> Any:
    return te.compute(shape, extent, name="fusionx_extents")


def _places(flags: Any) -> Any:
    def body(operands: Any, results: Any) -> Any:
        build = tir.ir_builder.create()
        holds, found, count = map(build.buffer_ptr, (operands[0], *results))
        length = flags.shape[0]
        with build.for_range(0, length, name="i") as i:
            found[i] = tir.const(0, "int64")
        count[0] = tir.const(0, "int64")
        with (
            build.for_range(0, length, name="i") as i,
            build.if_scope(holds[i] != tir.const(0, "bool")),
        ):
            found[count[0]] = tir.Cast("int64", i)
            count[0] = count[0] + tir.const(1, "int64")
        return build.get()

    return te.extern(
        [flags.shape, (1,)], [flags], body, dtype=["int64", "int64"], name="fusionx_places"
    )


def _type_of_suppression(types: Any, attrs: Any) -> Any:
    scores = types[1]
    if not all(isinstance(each, tvm.ir.TensorType) for each in types):
        return None
    extents = list(scores.shape)
    if all(isinstance(extent, tir.IntImm) for extent in extents):
        rows: Any = tir.IntImm("int64", int(extents[0]) * int(extents[1]) * int(extents[2]))
    else:
        rows = tir.Any()
    return tvm.ir.TupleType(
        [tvm.ir.TensorType([rows, RESULT], "int64"), tvm.ir.TensorType([1], "int64")]
    )


def _shape_of_suppression(scores: Any) -> list[Any]:
    rows = scores[0] * scores[1] * scores[2]
    selected = _extents((2,), lambda i: tir.Select(i == 0, rows, tir.const(RESULT, "int64")))
    return [selected, _one()]


def _non_max_suppression(boxes: Any, scores: Any, most: Any, overlap: Any, least: Any) -> Any:
    images, classes, number = scores.shape
    rows = images * classes

    def select(operands: Any, results: Any) -> Any:
        build = tir.ir_builder.create()
        with build.for_range(0, rows, name="row", kind="parallel") as row:
            _select_in_row(build, row, classes, number, operands, results)
        return build.get()

    def collect(operands: Any, results: Any) -> Any:
        build = tir.ir_builder.create()
        kept, counts, selected, total = map(build.buffer_ptr, (*operands, *results))
        total[0] = tir.const(0, "int64")
        with build.for_range(0, rows, name="row") as row:
            with build.for_range(0, counts[row], name="i") as i:
                place = total[0] + tir.Cast("int64", i)
                selected[place, 0] = tir.Cast("int64", tir.floordiv(row, classes))
                selected[place, 1] = tir.Cast("int64", tir.floormod(row, classes))
                selected[place, 2] = tir.Cast("int64", kept[row, i])
            total[0] = total[0] + tir.Cast("int64", counts[row])
        rest = tir.Cast("int64", rows * number) - total[0]
        with build.for_range(0, rest, name="i") as i, build.for_range(0, RESULT, name="j") as j:
            selected[total[0] + i, j] = tir.const(0, "int64")
        return build.get()

    kept, counts = te.extern(
        [(rows, number), (rows,)],
        [boxes, scores, most, overlap, least],
        select,
        dtype=["int32", "int32"],
        name="fusionx_suppress",
    )
    return te.extern(
        [(rows * number, RESULT), (1,)],
        [kept, counts],
        collect,
        dtype=["int64", "int64"],
        name="fusionx_collect",
    )


def _select_in_row(
    build: Any, row: Any, classes: Any, number: Any, operands: Any, results: Any
) -> None:
    """Keep the boxes of one image and class.

    A row's first places hold what is kept, the best first; behind them, in the model's order, lie
    the candidates: each step takes the best of them, the first of equals, and drops the covered.
    """
    boxes, scores, most, overlap, least, kept, counts = map(build.buffer_ptr, (*operands, *results))
    image, label = tir.floordiv(row, classes), tir.floormod(row, classes)
    end = build.allocate("int32", (1,), name="end", scope="local")
    left = build.allocate("int32", (1,), name="left", scope="local")
    best = build.allocate("int32", (1,), name="best", scope="local")
    chosen = build.allocate("int32", (1,), name="chosen", scope="local")
    end[0] = 0
    with (
        build.for_range(0, number, name="i") as i,
        build.if_scope(scores[image, label, i] > least[0]),
    ):
        kept[row, end[0]] = tir.Cast("int32", i)
        end[0] = end[0] + 1
    counts[row] = 0

    def score(place: Any) -> Any:
        return scores[image, label, kept[row, place]]

    with build.while_loop(tir.all(counts[row] < end[0], tir.Cast("int64", counts[row]) < most[0])):
        best[0] = counts[row]
        with build.for_range(0, end[0] - counts[row] - 1, name="i") as i:
            place = counts[row] + 1 + i
            with build.if_scope(score(place) > score(best[0])):
                best[0] = place
        chosen[0] = kept[row, best[0]]
        # Those before the best move up by one, in their order: the best goes before them.
        with build.for_range(0, best[0] - counts[row], name="i") as i:
            kept[row, best[0] - i] = kept[row, best[0] - i - 1]
        kept[row, counts[row]] = chosen[0]
        counts[row] = counts[row] + 1
        left[0] = counts[row]
        with build.for_range(0, end[0] - counts[row], name="i") as i:
            other = kept[row, counts[row] + i]
            with build.if_scope(tir.Not(_covers(boxes, image, chosen[0], other, overlap[0]))):
                kept[row, left[0]] = other
                left[0] = left[0] + 1
        end[0] = left[0]


def _covers(boxes: Any, image: Any, first: Any, second: Any, overlap: Any) -> Any:
    def bounds(box: Any, axis: int) -> tuple[Any, Any]:
        one, other = boxes[image, box, axis], boxes[image, box, axis + 2]
        return tir.min(one, other), tir.max(one, other)

    zero = tir.const(0, "float32")
    sides, areas = [], []
    for axis in (0, 1):
        (low, high), (low_other, high_other) = bounds(first, axis), bounds(second, axis)
        sides.append(tir.min(high, high_other) - tir.max(low, low_other))
        areas.append((high - low, high_other - low_other))
    common = sides[0] * sides[1]
    area, area_other = (areas[0][i] * areas[1][i] for i in (0, 1))
    union = area + area_other - common
    return tir.all(
        sides[0] > zero,
        sides[1] > zero,
        area > zero,
        area_other > zero,
        union > zero,
        tir.div(common, union) > overlap,
    )


def _type_of_rows(types: Any, attrs: Any) -> Any:
    data = types[0]
    if not isinstance(data, tvm.ir.TensorType):
        return None
    return tvm.ir.TensorType([tir.Any(), *list(data.shape)[1:]], data.dtype)


def _shape_of_rows(data: Any, count: Any) -> list[Any]:
    return [_extents(data.shape, lambda i: tir.Select(i == 0, count[0], data[i]))]


def _first_rows(data: Any) -> list[Any]:
    shape = (te.size_var("rows", "int32"), *list(data.shape)[1:])
    return [te.compute(shape, lambda *place: data(*place), name="fusionx_first_rows")]
