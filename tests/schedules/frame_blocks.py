"""Convolutions along the rows of planes, from unblocked channels to unblocked channels."""

from __future__ import annotations

from typing import Any

from tvm import relay

from tests.relay_modules import module
from tests.schedules.blocked_blocks import dense


def planes(y: relay.Expr) -> relay.Expr:
    """Leave the layout of eight channels a chunk."""
    return relay.layout_transform(y, "NCHW8c", "NCHW")


def frames(y: relay.Expr, height: int) -> relay.Expr:
    """Leave the layout for frames of so many rows, as clips have them."""
    _, channels, count, pixels = (int(each) for each in _shape(planes(y)))
    return relay.reshape(planes(y), (1, channels, count, height, pixels // height))


def _shape(y: relay.Expr) -> Any:
    return module(y)["main"].ret_type.shape


def along(
    channels: int, size: tuple[int, int], outputs: int, kernel: int = 3, **options: Any
) -> relay.Expr:
    """Return a convolution of one column and so many rows."""
    width = kernel // 2
    options = {"padding": (width, 0, width, 0), "post": planes, "blocks": (1, 8)} | options
    return dense(channels, size, outputs, (kernel, 1), **options)
