"""Faster R-CNN whole (Ren et al. 2015), with a pyramid (Lin et al. 2017), as exporters write it.

Small widths and random weights, but every part: backbone, pyramid, proposals (section 3.1) with
their suppression, regions pooled from the map of their size, the head of section 3.2, and the
detections of each class with a suppression of their own. How many proposals and detections there
are is decided by the data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

SIDE = 64
STRIDES = (4, 8)
CHANNELS = 8
CLASSES = 4
ANCHOR_SIDES = (16, 32)
RATIOS = (0.5, 1.0, 2.0)
# Of each map before suppression, and in all behind it; detections of a picture.
BEFORE, PROPOSALS, DETECTIONS = 60, 40, 15
OVERLAPS = (0.7, 0.5)
LEAST_SCORE = 0.26
LEAST_SIDE = 2.0
POOLED, HIDDEN = 5, 32
# torchvision's bound of a box's growth.
MOST_GROWTH = math.log(1000 / 16)
OPSET = 17


def anchors(stride: int, side: int) -> np.ndarray:
    """Return corners of a map's anchors, ``[places * ratios, 4]``."""
    halves = [(side / math.sqrt(r) / 2, side * math.sqrt(r) / 2) for r in RATIOS]
    shapes = np.array([(-w, -h, w, h) for w, h in halves])
    places = np.arange(SIDE // stride) * stride
    y, x = np.meshgrid(places, places, indexing="ij")
    centres = np.stack([x, y, x, y], axis=-1).reshape(-1, 1, 4)
    return (centres + shapes).reshape(-1, 4).astype("float32")


class _Writer:
    """Writes nodes; every method returns the names of results."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.draw = np.random.default_rng(3)

    def constant(self, array: Any, dtype: str = "int64") -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def __call__(self, op: str, *inputs: str, count: int = 1, **attributes: Any) -> Any:
        names = [f"{op}{len(self.nodes)}_{at}" for at in range(count)]
        self.nodes.append(helper.make_node(op, list(inputs), names, names[0], **attributes))
        return names[0] if count == 1 else names

    def drawn(self, *shape: int, gain: float = 1.0) -> str:
        deviation = gain / math.sqrt(math.prod(shape[1:]))
        return self.constant(self.draw.normal(0, deviation, shape), "float32")

    def conv(self, x: str, out: int, into: int, kernel: int, stride: int = 1, gain: Any = 1) -> str:
        weights = self.drawn(out, into, kernel, kernel, gain=gain)
        bias = self.constant(self.draw.normal(0, 0.1, out), "float32")
        sides = {"pads": [kernel // 2] * 4, "strides": [stride] * 2}
        return self("Conv", x, weights, bias, **sides)

    def dense(self, x: str, out: int, into: int, gain: float = 1.0) -> str:
        bias = self.constant(self.draw.normal(0, 0.1, out), "float32")
        return self("Gemm", x, self.drawn(out, into, gain=gain), bias, transB=1)

    def number(self, value: float) -> str:
        return self.constant(value, "float32")

    def columns(self, boxes: str) -> list[str]:
        return list(self("Split", boxes, axis=1, count=4))

    def rows_where(self, flags: str) -> str:
        return self("Squeeze", self("NonZero", flags), self.constant([0]))


def faster_rcnn(maps_read: int = len(STRIDES)) -> onnx.ModelProto:
    """Return the network: a picture in; boxes, labels and scores of its detections out.

    With `maps_read` of 1 it is the one of the first paper, without a pyramid.
    """
    write = _Writer()
    maps = _pyramid(write, "picture")[-maps_read:]
    proposals = _proposals(write, maps)
    regions, features = _pooled(write, maps, proposals)
    outputs = _detections(write, regions, features)
    kinds: dict[str, tuple[int, list[Any]]] = {
        "boxes": (1, ["found", 4]),
        "labels": (7, ["found"]),
        "scores": (1, ["found"]),
    }
    for name, result in zip(kinds, outputs, strict=True):
        write.nodes.append(helper.make_node("Identity", [result], [name]))
    graph = helper.make_graph(
        write.nodes,
        "faster_rcnn",
        [helper.make_tensor_value_info("picture", 1, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()],
        write.weights,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _pyramid(write: _Writer, picture: str) -> list[str]:
    x = write("Relu", write.conv(picture, CHANNELS, 3, 3, 2, 2.0))
    fine = write("Relu", write.conv(x, 2 * CHANNELS, CHANNELS, 3, 2, 2.0))
    coarse = write("Relu", write.conv(fine, 4 * CHANNELS, 2 * CHANNELS, 3, 2, 2.0))
    sides = [write.conv(fine, CHANNELS, 2 * CHANNELS, 1)]
    sides.append(write.conv(coarse, CHANNELS, 4 * CHANNELS, 1))
    scales = write.constant([1, 1, 2, 2], "float32")
    grown = write("Resize", sides[1], "", scales, mode="nearest")
    summed = [write("Add", sides[0], grown), sides[1]]
    return [write.conv(each, CHANNELS, CHANNELS, 3, gain=2.0) for each in summed]


def _proposals(write: _Writer, maps: list[str]) -> str:
    """Return the boxes that may hold something, ``[?, 4]``, best first."""
    first = write.drawn(CHANNELS, CHANNELS, 3, 3, gain=2.0)
    judged, moved = (write.drawn(len(RATIOS) * each, CHANNELS, 1, 1, gain=1.5) for each in (1, 4))
    kept = []
    count = len(maps)
    read = zip(maps, STRIDES[-count:], ANCHOR_SIDES[-count:], strict=True)
    for level, (each, stride, side) in enumerate(read):
        hidden = write("Relu", write("Conv", each, first, pads=[1] * 4))
        rows = []
        for weights, values in ((judged, 1), (moved, 4)):
            made = write("Conv", hidden, weights)
            split = write.constant([len(RATIOS), values, SIDE // stride, SIDE // stride])
            turned = write("Transpose", write("Reshape", made, split), perm=[2, 3, 0, 1])
            rows.append(write("Reshape", turned, write.constant([-1, values])))
        scores = write("Reshape", rows[0], write.constant([-1]))
        best, at = write("TopK", scores, write.constant([BEFORE]), count=2)
        places = write.constant(anchors(stride, side), "float32")
        boxes = write("Gather", places, at, axis=0)
        boxes = _moved(write, boxes, write("Gather", rows[1], at, axis=0), (1.0, 1.0))
        kept.append((boxes, best, write.constant(np.full(BEFORE, level), "float32")))
    boxes, scores, levels = (write("Concat", *parts, axis=0) for parts in zip(*kept, strict=True))
    boxes, scores, levels = _large_enough(write, boxes, write("Sigmoid", scores), levels)
    keep = _suppressed(write, boxes, scores, levels, PROPOSALS, OVERLAPS[0])
    return write("Gather", boxes, keep, axis=0)


def _moved(write: _Writer, boxes: str, deltas: str, weights: tuple[float, float]) -> str:
    """Return boxes moved and stretched as deltas say, within the picture."""
    left, top, right, bottom = write.columns(boxes)
    parts = write.columns(deltas)
    half, corners = write.number(0.5), []
    for low, high, shift, growth in ((left, right, *parts[::2]), (top, bottom, *parts[1::2])):
        size = write("Sub", high, low)
        centre = write("Add", low, write("Mul", size, half))
        shift = write("Div", shift, write.number(weights[0]))
        growth = write("Div", growth, write.number(weights[1]))
        centre = write("Add", centre, write("Mul", shift, size))
        bounded = write("Min", growth, write.number(MOST_GROWTH))
        reach = write("Mul", write("Mul", size, write("Exp", bounded)), half)
        corners.append((write("Sub", centre, reach), write("Add", centre, reach)))
    (left, right), (top, bottom) = corners
    joined = write("Concat", left, top, right, bottom, axis=1)
    return write("Clip", joined, write.number(0), write.number(SIDE))


def _large_enough(write: _Writer, boxes: str, *beside: str) -> list[str]:
    left, top, right, bottom = write.columns(boxes)
    flags = [
        write("GreaterOrEqual", write("Sub", high, low), write.number(LEAST_SIDE))
        for low, high in ((left, right), (top, bottom))
    ]
    both = write("Reshape", write("And", *flags), write.constant([-1]))
    at = write.rows_where(both)
    return [write("Gather", each, at, axis=0) for each in (boxes, *beside)]


def _suppressed(
    write: _Writer, boxes: str, scores: str, groups: str, most: int, overlap: float
) -> str:
    """Return places of the best boxes: those of other groups lie far away and cover none."""
    far = write("Add", write("ReduceMax", boxes, keepdims=0), write.number(1))
    shift = write("Unsqueeze", write("Mul", groups, far), write.constant([1]))
    apart = write("Unsqueeze", write("Add", boxes, shift), write.constant([0]))
    rows = write(
        "NonMaxSuppression",
        apart,
        write("Unsqueeze", scores, write.constant([0, 1])),
        write.constant([most]),
        write.constant([overlap], "float32"),
    )
    return write("Gather", rows, write.constant(2), axis=1)


def _pooled(write: _Writer, maps: list[str], boxes: str) -> tuple[str, str]:
    """Return regions, by the map they belong to, and what each shows of it."""
    left, top, right, bottom = write.columns(boxes)
    area = write("Mul", write("Sub", right, left), write("Sub", bottom, top))
    sides = write("Reshape", write("Sqrt", area), write.constant([-1]))
    border = sum(ANCHOR_SIDES) / len(ANCHOR_SIDES) if len(maps) > 1 else 0.0
    is_large = write("Greater", sides, write.number(border))
    regions, shown = [], []
    parts = (write("Not", is_large), is_large)[-len(maps) :]
    for each, stride, flags in zip(maps, STRIDES[-len(maps) :], parts, strict=True):
        at = write.rows_where(flags)
        mine = write("Gather", boxes, at, axis=0)
        pooled = write(
            "RoiAlign",
            each,
            mine,
            write("Mul", at, write.constant(0)),
            output_height=POOLED,
            output_width=POOLED,
            sampling_ratio=2,
            spatial_scale=1 / stride,
            coordinate_transformation_mode="output_half_pixel",
        )
        regions.append(mine)
        shown.append(pooled)
    flat = write("Flatten", write("Concat", *shown, axis=0))
    hidden = write("Relu", write.dense(flat, HIDDEN, CHANNELS * POOLED**2, 2.0))
    hidden = write("Relu", write.dense(hidden, HIDDEN, HIDDEN, 2.0))
    return write("Concat", *regions, axis=0), hidden


def _detections(write: _Writer, regions: str, features: str) -> list[str]:
    """Return boxes, labels and scores of what is found, best first."""
    scores = write("Softmax", write.dense(features, CLASSES, HIDDEN, 0.25), axis=1)
    deltas = write.dense(features, 4 * CLASSES, HIDDEN)
    one, minus = write.constant([1]), write.constant([-1])
    ends = [write.constant([each]) for each in (CLASSES, 4, 4 * CLASSES)]
    # A row of each region and class: the background has no box.
    deltas = write(
        "Reshape", write("Slice", deltas, ends[1], ends[2], one), write.constant([-1, 4])
    )
    copies = write.constant([1, CLASSES - 1, 1])
    regions = write("Tile", write("Unsqueeze", regions, one), copies)
    boxes = write("Reshape", regions, write.constant([-1, 4]))
    boxes = _moved(write, boxes, deltas, (10.0, 5.0))
    score = write("Slice", scores, one, ends[0], one)
    numbers = write.constant([list(range(1, CLASSES))], "float32")
    labels = write("Add", write("Mul", score, write.number(0)), numbers)
    score, labels = (write("Reshape", each, minus) for each in (score, labels))
    at = write.rows_where(write("Greater", score, write.number(LEAST_SCORE)))
    kept = [write("Gather", each, at, axis=0) for each in (boxes, score, labels)]
    boxes, score, labels = _large_enough(write, *kept)
    keep = _suppressed(write, boxes, score, labels, DETECTIONS, OVERLAPS[1])
    keep = write("Slice", keep, write.constant([0]), write.constant([DETECTIONS]))
    boxes, score, labels = (write("Gather", each, keep, axis=0) for each in (boxes, score, labels))
    return [boxes, write("Cast", labels, to=7), score]
