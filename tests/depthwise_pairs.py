"""Blocked depthwise convolutions and the pointwise ones after them, as small Relay functions."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relay

from tests.relay_modules import const, var

Activation = Callable[[relay.Expr], relay.Expr]


def relu6(value: relay.Expr) -> relay.Expr:
    """Return `value` clipped to 0..6."""
    return relay.clip(value, 0.0, 6.0)


def hard_swish(value: relay.Expr) -> relay.Expr:
    """Return ``value * clip(value + 3, 0, 6) / 6``."""
    gate = relay.clip(value + relay.const(3.0), 0.0, 6.0)
    return value * (gate * relay.const(1.0 / 6.0))


def blocked_image(
    channels: int, rows: int, columns: int, *, block: int = 8, batch: int = 1, name: str = "x"
) -> relay.Var:
    """Return a variable ``[N, C / block, H, W, block]``."""
    return var(name, batch, channels // block, rows, columns, block)


def depthwise(
    data: relay.Expr,
    channels: int,
    *,
    block: int = 8,
    kernel: int = 3,
    stride: int = 1,
    dilation: int = 1,
    padding: int | None = None,
) -> relay.Expr:
    """Return a blocked depthwise convolution of `data`, padded to keep its size unless told."""
    width = (kernel - 1) * dilation // 2 if padding is None else padding
    layout = f"NCHW{block}c"
    return relay.nn.contrib_depthwise_conv2d_nchwc(
        data,
        const(channels // block, 1, kernel, kernel, 1, block, seed=1),
        strides=(stride, stride),
        padding=(width,) * 4,
        dilation=(dilation, dilation),
        groups=channels,
        channels=channels,
        kernel_size=(kernel, kernel),
        data_layout=layout,
        kernel_layout=f"OIHW1i{block}o",
        out_layout=layout,
    )


def pointwise(
    data: relay.Expr,
    channels: int,
    outputs: int,
    *,
    block: int = 8,
    out_block: int | None = None,
    kernel: int = 1,
    stride: int = 1,
) -> relay.Expr:
    """Return a blocked convolution of `data` that sums over channels."""
    out_block = out_block or block
    width = kernel // 2
    return relay.nn.contrib_conv2d_nchwc(
        data,
        const(outputs // out_block, channels // block, kernel, kernel, block, out_block, seed=2),
        strides=(stride, stride),
        padding=(width,) * 4,
        channels=outputs,
        kernel_size=(kernel, kernel),
        data_layout=f"NCHW{block}c",
        kernel_layout=f"OIHW{block}i{out_block}o",
        out_layout=f"NCHW{out_block}c",
    )


def bias(channels: int, *, block: int = 8, seed: int = 3) -> relay.Expr:
    """Return a constant of one number a channel that broadcasts in NCHWc."""
    return const(1, channels // block, 1, 1, block, seed=seed)


def pair(
    channels: int,
    size: tuple[int, int],
    outputs: int,
    *,
    block: int = 8,
    out_block: int = 8,
    batch: int = 1,
    between: Activation = relay.nn.relu,
    after: Activation = relay.nn.relu,
    **window: int,
) -> relay.Expr:
    """Return a depthwise and a pointwise convolution, each with a bias and an activation."""
    data = blocked_image(channels, *size, block=block, batch=batch)
    first = depthwise(data, channels, block=block, **window) + bias(channels, block=block)
    second = pointwise(between(first), channels, outputs, block=block, out_block=out_block)
    return after(second + bias(outputs, block=out_block, seed=4))
