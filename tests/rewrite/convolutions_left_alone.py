"""Kernels and shifts before convolutions that a rule must leave alone, and the reason it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relay

from tests.relay_modules import const, var

image, pixels = var("image", 1, 4, 8, 8), var("pixels", 1, 8, 8, 4)
kernel = const(6, 4, 3, 3, seed=1)
pointwise, wide_kernel = const(8, 4, 1, 1), const(2, 8, 3, 3)
AROUND = ((0, 0), (0, 0), (1, 1), (1, 1))
CHANNELS_LAST: dict[str, Any] = {"data_layout": "NHWC", "kernel_layout": "HWIO"}


def _convolution_of_groups(image: relay.Expr, window: int = 3) -> relay.Expr:
    weight = const(6, 2, window, window)
    size = {"channels": 6, "kernel_size": (window, window)}
    return relay.nn.conv2d(image, weight, groups=2, **size)


def _read_twice(image: relay.Expr) -> relay.Expr:
    return relay.Tuple([relay.nn.conv2d(image, const(2, 4, 3, 3)), image])


def _spread(data: relay.Expr, weight: relay.Expr, strides: Any, **more: Any) -> relay.Expr:
    sizes = {"channels": 2, "kernel_size": (2, 2, 2), **more}
    return relay.nn.conv3d_transpose(data, weight, strides=strides, **sizes)


def _padding_read_twice(padded: relay.Expr) -> relay.Expr:
    return relay.Tuple([relay.nn.conv2d(padded, kernel), relay.sigmoid(padded)])


# Rule, graph it must leave alone, and the reason it gives when it matched at all.
CONVOLUTIONS: dict[str, tuple[str, Callable[[], relay.Expr], str | None]] = {
    "shift of an image that is padded": (
        "fold_input_summand_into_convolution",
        lambda: relay.nn.conv2d(image + const(4, 1, 1), kernel, padding=(1, 1)) + const(6, 1, 1),
        "what is padded with is not shifted",
    ),
    "shift inside a padding": (
        "fold_input_summand_into_convolution",
        lambda: (
            relay.nn.conv2d(
                relay.nn.pad(image + const(4, 1, 1), ((0, 0), (0, 0), (1, 1), (1, 1))), kernel
            )
            + const(6, 1, 1)
        ),
        "what is padded with is not shifted",
    ),
    "shift before a convolution without a bias": (
        "fold_input_summand_into_convolution",
        lambda: relay.nn.conv2d(image + const(4, 1, 1), kernel),
        None,
    ),
    "shift of a padded image without a bias": (
        "shift_after_convolution",
        lambda: relay.nn.conv2d(image + const(4, 1, 1), kernel, padding=(1, 1)),
        "what is padded with is not shifted",
    ),
    "shift inside a padding without a bias": (
        "shift_after_convolution",
        lambda: relay.nn.conv2d(
            relay.nn.pad(image + const(4, 1, 1), ((0, 0), (0, 0), (1, 1), (1, 1))), kernel
        ),
        "what is padded with is not shifted",
    ),
    "shift before a result that is larger": (
        "shift_after_convolution",
        lambda: relay.nn.conv2d(image + const(4, 1, 1), pointwise),
        None,
    ),
    "shift that another call reads": (
        "shift_after_convolution",
        lambda: _read_twice(image + const(4, 1, 1)),
        None,
    ),
    "shift before groups without a bias": (
        "shift_after_convolution",
        lambda: _convolution_of_groups(image + const(4, 1, 1)),
        None,
    ),
    "shift before weights that are an input": (
        "shift_after_convolution",
        lambda: relay.nn.conv2d(image + const(4, 1, 1), var("w", 2, 4, 3, 3)),
        None,
    ),
    "shift of each pixel": (
        "shift_after_convolution",
        lambda: relay.nn.conv2d(image + const(8, 8), const(2, 4, 3, 3)),
        None,
    ),
    "shift of an image whose channels lie last": (
        "shift_after_convolution",
        lambda: relay.nn.conv2d(pixels + const(8, 1, 1), const(1, 8, 4, 2), **CHANNELS_LAST),
        None,
    ),
    "first of two kernels that strides": (
        "merge_pointwise_kernels",
        lambda: relay.nn.conv2d(relay.nn.conv2d(image, pointwise, strides=(2, 2)), wide_kernel),
        "the first convolution pads or strides",
    ),
    "first of two kernels that pads": (
        "merge_pointwise_kernels",
        lambda: relay.nn.conv2d(relay.nn.conv2d(image, pointwise, padding=(0, 1)), wide_kernel),
        "the first convolution pads or strides",
    ),
    "first of two kernels larger than one pixel": (
        "merge_pointwise_kernels",
        lambda: relay.nn.conv2d(relay.nn.conv2d(image, const(8, 4, 1, 3)), wide_kernel),
        "the first kernel is larger than one pixel",
    ),
    "second of two kernels of groups": (
        "merge_pointwise_kernels",
        lambda: _convolution_of_groups(relay.nn.conv2d(image, const(4, 4, 1, 1))),
        "the channels are in groups",
    ),
    "first of two kernels of groups": (
        "merge_pointwise_kernels",
        lambda: relay.nn.conv2d(_convolution_of_groups(image, 1), const(2, 6, 3, 3)),
        "the channels are in groups",
    ),
    "two kernels of images whose channels lie last": (
        "merge_pointwise_kernels",
        lambda: relay.nn.conv2d(
            relay.nn.conv2d(pixels, const(1, 1, 4, 8), **CHANNELS_LAST),
            const(1, 1, 8, 2),
            **CHANNELS_LAST,
        ),
        "the channels do not lie one behind the other",
    ),
    "two kernels of which one is an input": (
        "merge_pointwise_kernels",
        lambda: relay.nn.conv2d(relay.nn.conv2d(image, pointwise), var("w", 2, 8, 3, 3)),
        "an operand is not a constant",
    ),
    "two kernels whose product is too large to keep": (
        "merge_pointwise_kernels",
        lambda: relay.nn.conv2d(
            relay.nn.conv2d(var("wide", 1, 2100, 1, 1), const(16, 2100, 1, 1)),
            const(2100, 16, 1, 1),
        ),
        "the product of the weights is too large to keep",
    ),
    "two kernels with fewer channels between": (
        "merge_pointwise_kernels",
        lambda: relay.nn.conv2d(relay.nn.conv2d(image, const(2, 4, 1, 1)), const(6, 2, 3, 3)),
        None,
    ),
    "shift before a convolution of groups": (
        "fold_input_summand_into_convolution",
        lambda: (
            relay.nn.conv2d(
                image + const(4, 1, 1), const(6, 2, 3, 3), groups=2, channels=6, kernel_size=(3, 3)
            )
            + const(6, 1, 1)
        ),
        None,
    ),
    "sequence whose channels lie last": (
        "sequence_convolution_as_picture",
        lambda: relay.nn.conv1d(
            var("steps", 1, 8, 4), const(3, 4, 6), data_layout="NWC", kernel_layout="WIO"
        ),
        "its channels are not the second axis",
    ),
    "padding of ones": (
        "padding_by_convolution",
        lambda: relay.nn.conv2d(relay.nn.pad(image, AROUND, 1.0), kernel),
        "it is not padded with zeros",
    ),
    "padding that mirrors": (
        "padding_by_convolution",
        lambda: relay.nn.conv2d(relay.nn.pad(image, AROUND, 0.0, "reflect"), kernel),
        "it is not padded with zeros",
    ),
    "padding of channels": (
        "padding_by_convolution",
        lambda: relay.nn.conv2d(
            relay.nn.pad(image, ((0, 0), (2, 2), (1, 1), (1, 1)), 0.0), wide_kernel
        ),
        "batches or channels are padded",
    ),
    "padding of batches": (
        "padding_by_convolution",
        lambda: relay.nn.conv2d(relay.nn.pad(image, ((0, 1), (0, 0), (1, 1), (1, 1)), 0.0), kernel),
        "batches or channels are padded",
    ),
    "padding of an image whose channels lie last": (
        "padding_by_convolution",
        lambda: relay.nn.conv2d(
            relay.nn.pad(pixels, AROUND, 0.0), const(3, 3, 6, 2), **CHANNELS_LAST
        ),
        None,
    ),
    "padding before another reshape": (
        "padding_by_convolution",
        lambda: relay.nn.conv2d(
            relay.reshape(relay.nn.pad(image, AROUND, 0.0), (1, 4, 5, 20)), kernel
        ),
        None,
    ),
    "padding that another call reads": (
        "padding_by_convolution",
        lambda: _padding_read_twice(relay.nn.pad(image, AROUND, 0.0)),
        None,
    ),
    "volumes whose windows overlap": (
        "volumes_side_by_side",
        lambda: _spread(var("volume", 1, 4, 3, 3, 3), const(4, 2, 2, 2, 2), (1, 1, 1)),
        "its windows do not lie side by side",
    ),
    "volumes whose border is cut": (
        "volumes_side_by_side",
        lambda: _spread(var("volume", 1, 4, 3, 3, 3), const(4, 2, 2, 2, 2), (2, 2, 2), padding=1),
        "it is padded or dilated",
    ),
    "volumes whose channels are in groups": (
        "volumes_side_by_side",
        lambda: _spread(*(var("volume", 1, 4, 3, 3, 3), const(4, 1, 2, 2, 2), (2, 2, 2)), groups=2),
        "its channels are in groups",
    ),
    "volumes whose weights lie otherwise": (
        "volumes_side_by_side",
        lambda: _spread(
            *(var("volume", 1, 2, 3, 3, 3), const(2, 2, 2, 2, 2), (2, 2, 2)),
            kernel_layout="DHWIO",
        ),
        "its channels are not the second axis",
    ),
    "volumes whose windows overlap, and that are filled": (
        "volumes_side_by_side",
        lambda: _spread(
            *(var("volume", 1, 4, 2, 2, 2), const(4, 2, 3, 3, 3), (2, 2, 2)),
            kernel_size=(3, 3, 3),
            output_padding=(1, 1, 1),
        ),
        "its windows do not lie side by side",
    ),
}
