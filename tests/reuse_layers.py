"""Random convolutions that reuse products: their operands, what numpy makes of them, their blocks.

Data and projections are small integers, so that every order of adding them up gives the same code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relay, te

from tvm_fusionx.expressions.similar_products import (
    REUSE,
    REUSED,
    expression,
    register_similar_products,
)
from tvm_fusionx.reuse.across_calls import keep, kept_products, look_up
from tvm_fusionx.reuse.clusters import Clustered, cluster
from tvm_fusionx.reuse.kept import Kept
from tvm_fusionx.reuse.layer import PANEL, ReuseLayer
from tvm_fusionx.tir.indices import simplify_indices

Array = np.ndarray[Any, Any]


def drawn(seed: int) -> ReuseLayer:
    """Return a random small layer."""
    draw = np.random.default_rng(seed)
    pick = draw.choice
    kernel = (int(pick([1, 2, 3])), int(pick([1, 3, 5])))
    padding = tuple(int(each) for each in pick([0, 0, 1, 2], 4))
    block = int(pick([4, 8, 16]))
    return ReuseLayer(
        images=int(draw.integers(1, 4)),
        chunks=int(draw.integers(1, 4)),
        height=int(draw.integers(6, 10)),
        width=int(draw.integers(9, 14)),
        lanes=int(pick([1, 3, 4, 8])),
        kernel=kernel,
        strides=(int(pick([1, 2])), int(pick([1, 2]))),
        dilation=(int(pick([1, 2])), int(pick([1, 1, 2]))),
        padding=padding,  # type: ignore[arg-type]
        channels=block * int(draw.integers(1, 4)),
        block=block,
        length=int(pick([3, 4, 8, 11, 16])),
        bits=int(draw.integers(1, 11)),
        limit=int(pick([2, 7, 30, 4096])),
        takes_mean=bool(draw.random() < 0.5),
        per_batch=bool(draw.random() < 0.5),
        has_relu=bool(draw.random() < 0.5),
    )


@dataclass(frozen=True)
class Numbers:
    """Operands of a layer, as numpy takes them."""

    data: Array
    """``[N, C, H, W]``."""
    weights: Array
    """``[columns, O]``."""
    projections: Array
    thresholds: Array
    bias: Array

    @staticmethod
    def drawn(layer: ReuseLayer, seed: int = 0) -> Numbers:
        """Return random ones."""
        draw = np.random.default_rng(seed)
        shape = (layer.images, layer.depth, layer.height, layer.width)
        return Numbers(
            draw.integers(0, 3, shape).astype("float32"),
            draw.standard_normal((layer.columns, layer.channels)).astype("float32"),
            (2 * draw.integers(0, 2, (layer.length, layer.bits)) - 1).astype("float32"),
            draw.integers(-3, 4, (layer.segment_count, layer.bits)).astype("float32"),
            draw.standard_normal(layer.channels).astype("float32"),
        )

    def keeping(self, layer: ReuseLayer) -> tuple[ReuseLayer, Kept]:
        """Return the layer where calls share clusters, those of other data and of half the rows."""
        other = Numbers.drawn(layer, seed=1).data
        kept = keep(layer, [other[:1, :, ::-1]], self.projections, self.thresholds)
        return replace(layer, kept=kept.most), kept

    def operands(self, layer: ReuseLayer, kept: Kept | None = None) -> list[Array]:
        """Return them as the operator takes them."""
        chunks = (layer.images, layer.chunks, layer.lanes, layer.height, layer.width)
        missing = ((0, 0), (0, PANEL - layer.bits))
        shared: list[Array] = []
        if kept is not None:
            shared = [kept.table(layer.bits), kept_products(layer, kept, self.weights)]
        return [
            np.ascontiguousarray(self.data.reshape(chunks).transpose(0, 1, 3, 4, 2)),
            self.weights,
            np.pad(self.projections, missing),
            np.pad(self.thresholds, missing),
            self.bias,
            *shared,
        ]

    def clustered(self, layer: ReuseLayer, kept: Kept | None = None) -> Clustered:
        """Return what numpy finds, without what follows the products."""
        given = (layer, self.data, self.weights, self.projections, self.thresholds)
        return cluster(*given) if kept is None else look_up(*given, kept)

    def expected(self, layer: ReuseLayer, kept: Kept | None = None) -> Array:
        """Return the operator's result."""
        found = self.clustered(layer, kept).result + self.bias[:, None, None]
        return in_chunks(np.maximum(found, 0) if layer.has_relu else found, layer.block)


def in_chunks(image: Array, block: int) -> Array:
    """Return ``[N, C, H, W]`` as ``[N, C / c, H, W, c]``."""
    images, channels, *pixels = image.shape
    parts = image.reshape(images, channels // block, block, *pixels)
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 4, 2))


def exact(layer: ReuseLayer) -> ReuseLayer:
    """Return the layer with segments of one number, whose clusters are equal numbers."""
    return replace(layer, length=1, bits=2, limit=4096)


def unscheduled(layer: ReuseLayer, numbers: Numbers, kept: Kept | None = None) -> Any:
    """Return the block of a layer as unscheduled TensorIR."""
    inputs = [
        te.placeholder(each.shape, str(each.dtype), f"p{at}")
        for at, each in enumerate(numbers.operands(layer, kept))
    ]
    return simplify_indices(te.create_prim_func([*inputs, expression(layer, inputs)]))


def reuse_call(layer: ReuseLayer) -> relay.Expr:
    """Return a call of a layer, all of its operands variables: all bits of its vectors count."""
    assert layer.bits & (layer.bits - 1) == 0, layer
    register_similar_products()
    attrs = tvm.ir.make_node("DictAttrs", **{REUSED: layer.text()})
    operands = [
        relay.var(f"x{at}", shape=each.shape)
        for at, each in enumerate(Numbers.drawn(layer).operands(layer))
    ]
    return relay.Call(relay.op.get(REUSE), operands, attrs)


def window_layer(channels: int = 64, side: int = 28, bits: int = 8) -> ReuseLayer:
    """Return a layer of 3 x 3 over as many channels as it makes, in chunks of four."""
    return ReuseLayer(
        images=1,
        chunks=channels // 4,
        height=side,
        width=side,
        lanes=4,
        kernel=(3, 3),
        strides=(1, 1),
        dilation=(1, 1),
        padding=(1, 1, 1, 1),
        channels=channels,
        block=4,
        length=channels,
        bits=bits,
        limit=1 << bits,
        takes_mean=True,
        per_batch=False,
    )


TAILS = replace(drawn(100), bits=8)
SINGLES = replace(drawn(106), bits=4, limit=3)
