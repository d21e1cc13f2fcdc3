"""Sliding windows: the attributes that convolutions and poolings share, made explicit."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_fusionx.frontend.node import Node


@dataclass(frozen=True)
class Windows:
    """One entry per spatial axis."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Return the number of dimensions."""
        return len(self.kernel)

    @property
    def padding(self) -> tuple[int, ...]:
        """Relay's order, which is ONNX's: all begins, then all ends."""
        return (*self.pads_begin, *self.pads_end)

    def extent(self, axis: int) -> int:
        """Return how many input elements one window spans."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def output(self, axis: int, is_ceil: bool = False) -> int:
        """Return how many windows there are."""
        padded = self.sizes[axis] + self.pads_begin[axis] + self.pads_end[axis]
        room, stride = padded - self.extent(axis), self.strides[axis]
        count = (-(-room // stride) if is_ceil else room // stride) + 1
        # A window that would start in the padding behind the data is not made.
        if is_ceil and (count - 1) * stride >= self.sizes[axis] + self.pads_begin[axis]:
            count -= 1
        return count


def windows_of(node: Node, kernel: tuple[int, ...]) -> Windows:
    """Return the node's windows, ``auto_pad`` resolved to numbers.

    Raises
    ------
    UnsupportedOperatorError
        Unless there are one to three spatial axes.
    """
    sizes = node.shape()[2:]
    rank = len(kernel)
    if rank not in (1, 2, 3) or len(sizes) != rank:
        raise node.refuse("one to three spatial axes", f"input {list(node.shape())}")
    strides = tuple(node.attribute("strides") or (1,) * rank)
    dilations = tuple(node.attribute("dilations") or (1,) * rank)
    pads = tuple(node.attribute("pads") or (0,) * (2 * rank))
    begin, end = pads[:rank], pads[rank:]
    auto = node.attribute("auto_pad", "NOTSET")
    if auto == "VALID":
        begin = end = (0,) * rank
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
            for size, stride, k, dilation in zip(sizes, strides, kernel, dilations, strict=True)
        ]
        small = tuple(total // 2 for total in totals)
        large = tuple(total - total // 2 for total in totals)
        begin, end = (small, large) if auto == "SAME_UPPER" else (large, small)
    return Windows(tuple(sizes), kernel, strides, dilations, begin, end)
