"""The operator of a convolution whose similar rows share products, and its definition.

Operands are ``data [N, C / c, H, W, c]``; ``weights [columns, O]`` in the order of a layer's rows;
``projections [length, 16]`` and ``thresholds [segments, 16]``, zeros behind the bits; and
``bias [O]``. The result is ``[N, O / o, H, W, o]``. Where calls share clusters there are two more:
``table [segments, 2^bits]``, the cluster of each code, and ``known [segments, clusters, O]``, their
products.

How rows are put together: :mod:`tvm_fusionx.reuse`; the kernel: :mod:`tvm_fusionx.schedules.reuse`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import te, tir

from tvm_fusionx._tvm.registry import register_operator
from tvm_fusionx.reuse.layer import ReuseLayer, Segment

REUSE = "fusionx.reuse_conv2d"
REUSE_KEPT = "fusionx.reuse_kept_conv2d"

# Annotation of the block, and attribute of the call: the layer as a text.
REUSED = "reused"

# Annotation of the block: names of the operands' buffers.
REUSED_BUFFERS = "reused_buffers"

# As ``tvm.relay.op.op.OpPattern.OPAQUE``: TVM fuses nothing with it.
OPAQUE = 8

FLOAT = "float32"

OPERANDS = {
    "data": "The image, in chunks of channels.",
    "weights": "A row for each number of a window.",
    "projections": "Of a segment.",
    "thresholds": "Of each segment's projections.",
    "bias": "Of the result's channels.",
}
KEPT_OPERANDS = {
    **OPERANDS,
    "table": "The cluster of each code of a segment.",
    "known": "The products of each cluster.",
}


def register_similar_products() -> None:
    """Make the operators known to Relay; idempotent."""
    for name, operands in ((REUSE, OPERANDS), (REUSE_KEPT, KEPT_OPERANDS)):
        register_operator(
            name,
            operands,
            lambda attrs, inputs, _: [expression(reuse_layer_of(attrs), inputs)],
            pattern=OPAQUE,
            type_relation=_type,
            attributes="DictAttrs",
            schedule=_schedule,
        )


def reuse_layer_of(attrs: Any) -> ReuseLayer:
    """Return the layer that attributes, or annotations, tell."""
    return ReuseLayer.of_text(str(attrs[REUSED]))


def _schedule(attrs: Any, outputs: Any, target: Any) -> Any:
    return te.create_schedule([output.op for output in outputs])


def _type(types: Sequence[Any], attrs: Any) -> Any:
    if not all(isinstance(each, tvm.ir.TensorType) for each in types):
        return None
    return tvm.ir.TensorType(reuse_layer_of(attrs).result_shape, FLOAT)


def expression(layer: ReuseLayer, inputs: Sequence[Any]) -> Any:
    """Return the tensor of a layer's result, of the tensors of its operands."""
    return te.extern(
        layer.result_shape,
        list(inputs),
        lambda ins, outs: number_by_number(layer, ins, outs[0]),
        dtype=FLOAT,
        name="reuse",
        attrs={REUSED: layer.text(), REUSED_BUFFERS: [str(each.op.name) for each in inputs]},
    )


def number_by_number(layer: ReuseLayer, operands: Sequence[Any], result: Any) -> Any:
    """Return the statement that computes a layer by the definition, for every kind of machine."""
    ib = tir.ir_builder.create()
    made = (_KeptByNumber if layer.kept else _NumberByNumber)(ib, layer, operands, result)
    with ib.for_range(0, layer.groups, "group") as group:
        made.begin(group)
        with ib.for_range(0, layer.segment_count, "number") as number:
            segment = layer.segment(number)
            made.put_together(group, number, segment)
            made.add(group, segment)
        made.end(group)
    return ib.get()


class _NumberByNumber:
    """Writes loops over rows; one segment after the other uses the same buffers."""

    def __init__(self, ib: Any, layer: ReuseLayer, operands: Sequence[Any], result: Any) -> None:
        self.ib, self.layer = ib, layer
        self.data, self.weights, self.projections, self.thresholds, self.bias = map(
            ib.buffer_ptr, operands[: len(OPERANDS)]
        )
        self.result = ib.buffer_ptr(result)
        self.table = ib.allocate("int32", (1 << layer.bits,), "table")
        self.place = ib.allocate("int32", (layer.rows,), "place")
        self.members = ib.allocate("int32", (layer.clusters,), "members")
        self.sums = ib.allocate(FLOAT, (layer.clusters, layer.length), "sums")
        self.held = ib.allocate(FLOAT, (layer.length,), "held")
        self.projected = ib.allocate(FLOAT, (1,), "projected")
        self.code = ib.allocate("int32", (1,), "code")
        self.count = ib.allocate("int32", (1,), "count")

    def begin(self, group: Any) -> None:
        """Put the bias into each result."""
        layer, ib = self.layer, self.ib
        with ib.for_range(0, layer.rows, "row") as row, ib.for_range(0, layer.channels, "o") as o:
            self.result[self._at(group, row, o)] = self.bias[o]

    def end(self, group: Any) -> None:
        """Apply what follows."""
        layer, ib = self.layer, self.ib
        if not layer.has_relu:
            return
        with ib.for_range(0, layer.rows, "row") as row, ib.for_range(0, layer.channels, "o") as o:
            at = self._at(group, row, o)
            self.result[at] = tir.max(self.result[at], tir.const(0.0, FLOAT))

    def put_together(self, group: Any, number: Any, segment: Segment) -> None:
        """Find the cluster of each row's segment, and what stands for each cluster."""
        layer, ib = self.layer, self.ib
        self.count[0] = 0
        with ib.for_range(0, 1 << layer.bits, "code") as code:
            self.table[code] = -1
        with ib.for_range(0, layer.rows, "row") as row:
            self._hold(group, row, segment)
            code = self._code_of(number, segment)
            is_new = tir.all(self.table[code] < 0, self.count[0] < layer.clusters)
            with ib.if_scope(is_new):
                self.table[code] = self.count[0]
                self.members[self.count[0]] = 0
                with self._each(segment.length) as k:
                    self.sums[self.count[0], k] = tir.const(0.0, FLOAT)
                self.count[0] += 1
            self.place[row] = self.table[code]
            found = self.place[row]
            with ib.if_scope(found >= 0):
                self.members[found] += 1
                # None, for those behind the first where it stands for all.
                first = tir.if_then_else(self.members[found] == 1, segment.length, 0)
                taken = segment.length if layer.takes_mean else first
                with self._each(taken) as k:
                    self.sums[found, k] += self.held[k]
        if layer.takes_mean:
            with (
                ib.for_range(0, layer.clusters, "cluster") as found,
                ib.if_scope(found < self.count[0]),
                self._each(segment.length) as k,
            ):
                self.sums[found, k] = self.sums[found, k] / self.members[found].astype(FLOAT)

    def _code_of(self, number: Any, segment: Segment) -> Any:
        """Return the code of the segment that is held."""
        ib = self.ib
        self.code[0] = 0
        with ib.for_range(0, self.layer.bits, "bit") as bit:
            self.projected[0] = tir.const(0.0, FLOAT)
            with self._each(segment.length) as k:
                self.projected[0] += self.held[k] * self.projections[k, bit]
            with ib.if_scope(self.projected[0] > self.thresholds[number, bit]):
                self.code[0] += tir.const(1, "int32") << bit
        return self.code[0]

    def add(self, group: Any, segment: Segment) -> None:
        """Add each row's share of the product."""
        layer, ib = self.layer, self.ib
        with ib.for_range(0, layer.rows, "row") as row:
            with ib.if_scope(self.place[row] >= 0):  # noqa: SIM117 (the branch has another)
                with self._each(segment.length) as k:
                    self.held[k] = self.sums[self.place[row], k]
            with ib.else_scope():
                self._hold(group, row, segment)
            with (
                ib.for_range(0, layer.channels, "o") as o,
                self._each(segment.length) as k,
            ):
                at = self._at(group, row, o)
                self.result[at] += self.held[k] * self.weights[segment.column + k, o]

    @contextmanager
    def _each(self, count: Any) -> Iterator[Any]:
        """Open a loop over the first numbers of a segment.

        Its extent is a constant: TVM makes no function of TensorIR of a definition with others.
        """
        with self.ib.for_range(0, self.layer.length, "k") as k:
            if isinstance(count, int):
                yield k
            else:
                with self.ib.if_scope(k < count):
                    yield k

    def _hold(self, group: Any, row: Any, segment: Segment) -> None:
        """Keep the numbers of a row's segment."""
        layer = self.layer
        image, y, x = self._pixel(group, row)
        with self._each(segment.length) as k:
            column = segment.column + k
            place, channel = column // layer.depth, column % layer.depth
            h = (
                y * layer.strides[0]
                + place // layer.kernel[1] * layer.dilation[0]
                - layer.padding[0]
            )
            w = (
                x * layer.strides[1]
                + place % layer.kernel[1] * layer.dilation[1]
                - layer.padding[1]
            )
            inside = tir.all(h >= 0, h < layer.height, w >= 0, w < layer.width)
            element = self.data[image, channel // layer.lanes, h, w, channel % layer.lanes]
            self.held[k] = tir.if_then_else(inside, element, tir.const(0.0, FLOAT))

    def _pixel(self, group: Any, row: Any) -> tuple[Any, Any, Any]:
        layer = self.layer
        image = row // layer.pixels if layer.per_batch else group
        pixel = row % layer.pixels
        return image, pixel // layer.result[1], pixel % layer.result[1]

    def _at(self, group: Any, row: Any, channel: Any) -> tuple[Any, ...]:
        image, y, x = self._pixel(group, row)
        return image, channel // self.layer.block, y, x, channel % self.layer.block


class _KeptByNumber(_NumberByNumber):
    """Writes loops over rows that look up products which calls share."""

    def __init__(self, ib: Any, layer: ReuseLayer, operands: Sequence[Any], result: Any) -> None:
        super().__init__(ib, layer, operands, result)
        self.tables, self.known = map(ib.buffer_ptr, operands[len(OPERANDS) :])

    def put_together(self, group: Any, number: Any, segment: Segment) -> None:
        """Find the cluster of each row's segment."""
        self.number = number
        with self.ib.for_range(0, self.layer.rows, "row") as row:
            self._hold(group, row, segment)
            found = self._code_of(number, segment)
            # Indexed by what is loaded, what a block reads would be told by a variable in it.
            with (
                self.ib.for_range(0, 1 << self.layer.bits, "code") as code,
                self.ib.if_scope(code == found),
            ):
                self.place[row] = self.tables[number, code]

    def add(self, group: Any, segment: Segment) -> None:
        """Add each row's share of the product."""
        layer, ib = self.layer, self.ib
        with ib.for_range(0, layer.rows, "row") as row:
            found = self.place[row]
            with ib.if_scope(found >= 0):  # noqa: SIM117 (the branch has another)
                with ib.for_range(0, layer.channels, "o") as o:
                    self.result[self._at(group, row, o)] += self.known[self.number, found, o]
            with ib.else_scope():
                self._hold(group, row, segment)
                with ib.for_range(0, layer.channels, "o") as o, self._each(segment.length) as k:
                    at = self._at(group, row, o)
                    self.result[at] += self.held[k] * self.weights[segment.column + k, o]
