"""Col2Im: columns of blocks added up to an image."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.converters.slicing import take
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant

# One gather for each block that covers a pixel.
MOST_GATHERS = 1024


def covering(image: int, block: int, stride: int, dilation: int, pad: int, count: int) -> Any:
    """Return which places of which blocks lie on each position of an axis.

    Returns
    -------
    numpy.ndarray
        Of [most, image, 2]: place in the block and number of the block, -1 where there are fewer.
    """
    found: list[list[tuple[int, int]]] = [[] for _ in range(image)]
    for place, number in itertools.product(range(block), range(count)):
        position = number * stride + place * dilation - pad
        if 0 <= position < image:
            found[position].append((place, number))
    most = max(1, *(len(each) for each in found))
    table = np.full((most, image, 2), -1, "int64")
    for position, each in enumerate(found):
        for index, pair in enumerate(each):
            table[index, position] = pair
    return table


@converter("Col2Im", through=18)
def convert_col2im(node: Node) -> Any:
    """Gather, for each pixel, what each block that covers it has there, and add up."""
    image, block = node.ints(1), node.ints(2)
    rank = len(image)
    strides = [int(i) for i in node.attribute("strides") or [1] * rank]
    dilations = [int(i) for i in node.attribute("dilations") or [1] * rank]
    pads = [int(i) for i in node.attribute("pads") or [0] * (2 * rank)]
    lists = (block, strides, dilations, pads[:rank], pads[rank:])
    if node.rank() != 3 or any(len(each) != rank for each in lists):
        raise node.refuse("three dimensions, and one number of each kind an axis", str(lists))
    if min([*image, *block, *strides, *dilations], default=0) < 1 or min(pads, default=0) < 0:
        raise node.refuse("sizes and steps of at least 1, pads of at least 0", str(lists))
    counts = [
        (image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i in range(rank)
    ]
    batch, columns, blocks = node.shape()
    size = math.prod(block)
    if min(counts) < 1 or columns % size or blocks != math.prod(counts):
        raise node.refuse(
            f"a multiple of {size} rows and {math.prod(counts)} blocks", f"{columns} and {blocks}"
        )
    channels = columns // size
    axes = [
        covering(image[i], block[i], strides[i], dilations[i], pads[i], counts[i])
        for i in range(rank)
    ]
    if math.prod(len(axis) for axis in axes) > MOST_GATHERS:
        raise node.refuse(f"at most {MOST_GATHERS} blocks on a pixel", "more")
    x = reshape(node.expr(), (batch, channels, size * blocks))
    total = None
    for chosen in itertools.product(*(range(len(axis)) for axis in axes)):
        grids = np.meshgrid(*(np.arange(n) for n in image), indexing="ij")
        pairs = [axis[j][grid] for axis, j, grid in zip(axes, chosen, grids, strict=True)]
        is_there = np.all([pair[..., 0] >= 0 for pair in pairs], axis=0)
        if not is_there.any():
            continue
        places = np.ravel_multi_index([np.maximum(p[..., 0], 0) for p in pairs], block)
        numbers = np.ravel_multi_index([np.maximum(p[..., 1], 0) for p in pairs], counts)
        part = take(x, (places * blocks + numbers).reshape(-1), 2)
        if not is_there.all():
            mask = constant(is_there.reshape(1, 1, -1))
            part = relay.where(mask, part, scalar(0, node.dtype()))
        total = part if total is None else total + part
    if total is None:
        return np.zeros((batch, channels, *image), node.dtype())
    return reshape(total, (batch, channels, *image))
