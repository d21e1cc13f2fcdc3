"""Products and convolutions that a rule must leave alone, and the reason it gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relay

from tests.relay_modules import const, var

x, y = var("x", 4, 8), var("y", 4, 8)
batch = var("batch", 2, 4, 8)
image = var("image", 1, 4, 8, 8)
other_image, odd_image = var("other_image", 1, 4, 8, 8), var("odd_image", 1, 4, 7, 7)
small_image = var("small_image", 1, 16, 2, 2)
kernel = const(6, 4, 3, 3, seed=1)


def _fan_out(*weights: relay.Expr) -> relay.Expr:
    return relay.Tuple([relay.nn.dense(x, weight) for weight in weights])


def _large_kernel(image: relay.Expr) -> relay.Expr:
    return relay.nn.conv2d(image, const(16, 16, 3, 3), padding=(1, 1))


def _interleaved(name: str) -> relay.Expr:
    return relay.nn.conv2d(
        var(name, 2, 2, 16, 1),
        const(3, 3, 16, 16),
        padding=(1, 1),
        kernel_size=(3, 3),
        channels=16,
        data_layout="HWCN",
        kernel_layout="HWIO",
    )


def _scaled_and_read_twice() -> relay.Expr:
    product = relay.nn.dense(x, const(6, 8))
    return relay.Tuple([product * relay.const(2.0), product])


# Rule, graph it must leave alone, and the reason it gives when it matched at all.
PRODUCTS: dict[str, tuple[str, Callable[[], relay.Expr], str | None]] = {
    "bias that is a scalar": (
        "fold_input_summand_into_bias",
        lambda: relay.nn.dense(x + const(8), const(1, 8, seed=1)) + relay.const(1.0),
        None,
    ),
    "matrix for each of a batch": (
        "product_with_shared_matrix",
        lambda: relay.nn.batch_matmul(batch, const(2, 6, 8)),
        None,
    ),
    "matrix not known": (
        "product_with_shared_matrix",
        lambda: relay.nn.batch_matmul(batch, var("w", 1, 6, 8)),
        None,
    ),
    "transposed batch": (
        "product_with_shared_matrix",
        lambda: relay.nn.batch_matmul(batch, const(1, 6, 4), transpose_a=True),
        None,
    ),
    "matmul of inputs": ("matmul_as_dense", lambda: relay.nn.matmul(x, var("w", 8, 6)), None),
    "matmul of transposed": (
        "matmul_as_dense",
        lambda: relay.nn.matmul(x, const(4, 6), transpose_a=True),
        None,
    ),
    "product of another type": (
        "product_with_shared_matrix",
        lambda: relay.nn.batch_matmul(
            var("bytes", 2, 4, 8, dtype="int8"),
            relay.const(np.ones((1, 6, 8), "int8")),
            out_dtype="int32",
        ),
        None,
    ),
    "channels of groups": (
        "slice_kernels_of_sliced_convolution",
        lambda: relay.strided_slice(
            relay.nn.conv2d(image, const(6, 2, 3, 3), groups=2, channels=6, kernel_size=(3, 3)),
            [0, 1],
            [1, 3],
        ),
        None,
    ),
    "rows of an image": (
        "slice_kernels_of_sliced_convolution",
        lambda: relay.strided_slice(
            relay.nn.conv2d(image, kernel), [0, 0, 1, 0], [1, 6, 3, 6], [1, 1, 1, 1]
        ),
        None,
    ),
    "columns beyond the padding": (
        "cut_padding_of_sliced_convolution",
        lambda: relay.strided_slice(
            relay.nn.conv2d(image, kernel, padding=(0, 1)), [3], [4], axes=[3]
        ),
        None,
    ),
    "columns that are added to": (
        "cut_padding_of_sliced_convolution",
        lambda: relay.strided_slice(
            relay.nn.conv2d(image, kernel, padding=(0, 1)) + const(1, 1, 6, 8), [0], [7], axes=[3]
        ),
        None,
    ),
    "columns of an image without its batch": (
        "cut_padding_of_sliced_convolution",
        lambda: relay.strided_slice(
            relay.reshape(relay.nn.conv2d(image, kernel, padding=(0, 1)), (6, 6, 8)),
            [0],
            [7],
            axes=[2],
        ),
        None,
    ),
    "identity beside a dilated window": (
        "add_identity_to_kernel",
        lambda: relay.nn.conv2d(image, const(4, 4, 3, 3), padding=(2, 2), dilation=(2, 2)) + image,
        None,
    ),
    "products one below the other": (
        "stack_weights_of_joined_products",
        lambda: relay.concatenate(
            [relay.nn.dense(x, const(6, 8, seed=seed)) for seed in range(2)], axis=0
        ),
        None,
    ),
    "factor of each channel before groups": (
        "fold_input_factor_into_kernel",
        lambda: relay.nn.conv2d(
            image * const(4, 1, 1), const(6, 2, 3, 3), groups=2, channels=6, kernel_size=(3, 3)
        ),
        "the factor differs between the groups' channels",
    ),
    "inputs larger than their matrix": (
        "stack_skinny_products",
        lambda: relay.Tuple([relay.nn.dense(item, const(6, 8)) for item in (x, y)]),
        "the inputs and results are larger than the matrix that is read once less",
    ),
    "one of two products needs the other": (
        "stack_skinny_products",
        lambda: relay.nn.dense(
            relay.tanh(relay.nn.dense(var("row", 1, 32), const(32, 32))), const(32, 32)
        ),
        "one of the products may need the other",
    ),
    "images larger than their kernel": (
        "stack_images_of_one_kernel",
        lambda: relay.Tuple([relay.nn.conv2d(item, kernel) for item in (image, other_image)]),
        "the images and results are larger than the kernel that is read once less",
    ),
    "one of two convolutions needs the other": (
        "stack_images_of_one_kernel",
        lambda: _large_kernel(relay.tanh(_large_kernel(small_image))),
        "one of the convolutions may need the other",
    ),
    "batches whose images are interleaved": (
        "stack_images_of_one_kernel",
        lambda: relay.Tuple([_interleaved(name) for name in ("first", "second")]),
        "the images of a batch do not lie one behind the other",
    ),
    "images of two sizes and one kernel": (
        "stack_images_of_one_kernel",
        lambda: relay.Tuple([_large_kernel(small_image), _large_kernel(var("other", 1, 16, 3, 3))]),
        None,
    ),
    "joined images of two sizes": (
        "join_images",
        lambda: relay.concatenate(
            [relay.nn.conv2d(item, kernel, strides=(2, 2)) for item in (image, odd_image)], axis=0
        ),
        "the images are of the sizes (4, 8, 8) and (4, 7, 7)",
    ),
    "joined convolutions of interleaved images": (
        "join_images",
        lambda: relay.concatenate([_interleaved(name) for name in ("first", "second")], axis=0),
        "the images of a batch do not lie one behind the other",
    ),
    "joined products of columns": (
        "join_first_factors",
        lambda: relay.concatenate(
            [
                relay.nn.batch_matmul(var(name, 2, 8, 4), const(2, 6, 8), transpose_a=True)
                for name in ("first", "second")
            ],
            axis=1,
        ),
        "the rows are columns in memory",
    ),
    "joined products of one batch and of two": (
        "join_first_factors",
        lambda: relay.concatenate(
            [relay.nn.batch_matmul(var(f"{n}", n, 4, 8), const(2, 6, 8)) for n in (1, 2)], axis=1
        ),
        "the batches differ",
    ),
    "factor inside a padding of ones": (
        "fold_input_factor_into_kernel",
        lambda: relay.nn.conv2d(
            relay.nn.pad(image * const(4, 1, 1), ((0, 0), (0, 0), (1, 1), (1, 1)), 1.0), kernel
        ),
        "the padding is not of zeros, and not scaled",
    ),
    "factor inside a padding of edges": (
        "fold_input_factor_into_kernel",
        lambda: relay.nn.conv2d(
            relay.nn.pad(image * const(4, 1, 1), ((0, 0), (0, 0), (1, 1), (1, 1)), pad_mode="edge"),
            kernel,
        ),
        "the padding is not of zeros, and not scaled",
    ),
    "factor of fewer channels than are padded": (
        "fold_input_factor_into_kernel",
        lambda: relay.nn.conv2d(
            relay.nn.pad(
                var("thin", 1, 3, 8, 8) * const(3, 1, 1), ((0, 0), (0, 1), (0, 0), (0, 0))
            ),
            kernel,
        ),
        None,
    ),
    "convolutions whose readers compute": (
        "merge_convolutions_of_one_image",
        lambda: relay.Tuple(
            [relay.nn.avg_pool2d(relay.nn.conv2d(image, const(6, 4, 3, 3, seed=s))) for s in (1, 2)]
        ),
        "a part of the result would be copied for a reader that computes",
    ),
    "one convolution": (
        "merge_convolutions_of_one_image",
        lambda: relay.transpose(relay.nn.conv2d(image, kernel)),
        None,
    ),
    "convolutions of other steps": (
        "merge_convolutions_of_one_image",
        lambda: relay.Tuple(
            [
                relay.transpose(relay.nn.conv2d(image, kernel, strides=(step, step)))
                for step in (1, 2)
            ]
        ),
        None,
    ),
    "factors that lie as they are read": (
        "transpose_into_product",
        lambda: relay.nn.batch_matmul(batch, const(2, 6, 8)),
        None,
    ),
    "batches that change place": (
        "transpose_into_product",
        lambda: relay.nn.batch_matmul(relay.transpose(batch, [1, 0, 2]), const(4, 6, 8)),
        None,
    ),
    "one product": ("merge_products_of_one_input", lambda: _fan_out(const(6, 8)), None),
    "products of two inputs": (
        "merge_products_of_one_input",
        lambda: relay.nn.dense(x, const(6, 8)) + relay.nn.dense(y, const(6, 8)),
        None,
    ),
    "products with inputs": (
        "merge_products_of_one_input",
        lambda: _fan_out(var("v", 6, 8), var("w", 6, 8)),
        None,
    ),
    "factor differs within a channel": (
        "fold_factor_into_weights",
        lambda: relay.nn.conv2d(image, kernel) * const(1, 6, 6, 1),
        "the factor differs within a channel",
    ),
    "unscaled product is read": ("fold_factor_into_weights", _scaled_and_read_twice, None),
    "weights are an input": (
        "fold_factor_into_weights",
        lambda: relay.nn.dense(x, var("w", 6, 8)) * relay.const(2.0),
        None,
    ),
    "transposed convolution of groups": (
        "fold_factor_into_weights",
        lambda: (
            relay.nn.conv2d_transpose(
                image, const(4, 2, 2, 2), channels=4, kernel_size=(2, 2), groups=2
            )
            * const(4, 1, 1)
        ),
        None,
    ),
}
