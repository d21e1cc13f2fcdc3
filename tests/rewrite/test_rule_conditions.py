"""Every condition of every rule: a graph on which the rule must not be applied."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tests.rewrite.rule_examples import refusals
from tvm_fusionx.rewrite import ALL_RULES
from tvm_fusionx.rewrite.engine import apply_rules

RULES = {rule.name: rule for rule in ALL_RULES}

x, y = var("x", 4, 8), var("y", 4, 8)
n, m = var("n", 4, 8, dtype="int32"), var("m", 4, 8, dtype="int32")
cube, batch = var("cube", 2, 3, 4), var("batch", 2, 4, 8)
image, planes = var("image", 1, 4, 8, 8), var("planes", 1, 4, 1, 8)
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
LEFT_ALONE: dict[str, tuple[str, Callable[[], relay.Expr], str | None]] = {
    "factor not known": (
        "merge_constant_factors",
        lambda: x * y * relay.const(3.0),
        "an operand is not a constant",
    ),
    "bias that is a scalar": (
        "fold_input_summand_into_bias",
        lambda: relay.nn.dense(x + const(8), const(1, 8, seed=1)) + relay.const(1.0),
        None,
    ),
    "division of integers": (
        "factor_common_divisor",
        lambda: relay.divide(n, relay.const(2)) + relay.divide(m, relay.const(2)),
        None,
    ),
    "root of what may be negative": (
        "square_of_root",
        lambda: relay.sqrt(y) * relay.sqrt(y),
        "an operand may be negative",
    ),
    "factor that varies along the axis": (
        "hoist_factor_out_of_sum",
        lambda: relay.sum(x * const(8), axis=1),
        "s varies along the reduced axes [1]",
    ),
    "factor with more axes": (
        "hoist_factor_out_of_sum",
        lambda: relay.sum(x * const(1, 1, 1), axis=2),
        "x is broadcast before it is reduced",
    ),
    "padding as wide as the window": (
        "monotone_after_max_pool",
        lambda: relay.nn.max_pool2d(relay.sigmoid(image), pool_size=(2, 2), padding=(2, 2)),
        "a window lies in the padding alone",
    ),
    "last window rounded up into the padding": (
        "monotone_after_max_pool",
        lambda: relay.nn.max_pool2d(
            relay.nn.relu(image), pool_size=(1, 1), strides=(3, 3), ceil_mode=True
        ),
        "a window lies in the padding alone",
    ),
    "dilated window around the image": (
        "factor_after_max_pool",
        lambda: relay.nn.max_pool2d(
            image * relay.const(2.0), pool_size=(2, 2), dilation=(9, 9), padding=(1, 1)
        ),
        "a window lies in the padding alone",
    ),
    "padding below the window on one side only": (
        "summand_after_max_pool",
        lambda: relay.nn.max_pool2d(
            image + relay.const(2.0), pool_size=(2, 2), padding=(0, 0, 2, 0)
        ),
        "a window lies in the padding alone",
    ),
    "one transpose": ("merge_transposes", lambda: relay.transpose(cube), None),
    "one reshape": ("merge_reshapes", lambda: relay.reshape(cube, (6, 4)), None),
    "elements change place": (
        "transpose_as_reshape",
        lambda: relay.transpose(planes, [0, 3, 1, 2]),
        None,
    ),
    "slice backwards": (
        "drop_no_operation",
        lambda: relay.strided_slice(x, [3, 0], [-5, 8], [-1, 1]),
        None,
    ),
    "slice of a part": ("drop_no_operation", lambda: relay.strided_slice(x, [1], [3]), None),
    "cast to another type": ("drop_no_operation", lambda: relay.cast(x, "float16"), None),
    "padding": ("drop_no_operation", lambda: relay.nn.pad(x, ((1, 0), (0, 0))), None),
    "concatenation of two": (
        "drop_no_operation",
        lambda: relay.concatenate([x, y], axis=0),
        None,
    ),
    "zero that broadcasts": (
        "drop_neutral_operand",
        lambda: var("v", 8) + relay.const(np.zeros((4, 8), "float32")),
        None,
    ),
    "zero minus": ("drop_neutral_operand", lambda: relay.const(0.0) - x, None),
    "one over": ("drop_neutral_operand", lambda: relay.const(1.0) / x, None),
    "other number": ("drop_neutral_operand", lambda: x + relay.const(1.0), None),
    "division by zero": (
        "divide_by_constant",
        lambda: x / relay.const(np.array([1, 0] * 4, "float32")),
        None,
    ),
    "inverse too large": ("divide_by_constant", lambda: x / relay.const(1e-39), None),
    "integer divisor": ("divide_by_constant", lambda: relay.divide(n, relay.const(3)), None),
    "divisor not known": ("divide_by_constant", lambda: x / y, None),
    "other power": ("small_powers", lambda: relay.power(x, relay.const(2.5)), None),
    "power not known": ("small_powers", lambda: relay.power(x, y), None),
    "power that broadcasts": (
        "small_powers",
        lambda: relay.power(var("v", 8), relay.const(np.full((4, 8), 2, "float32"))),
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
    "softmax between other places": (
        "softmax_without_transposes",
        lambda: relay.transpose(
            relay.nn.softmax(relay.transpose(cube, [1, 0, 2]), axis=0), [0, 2, 1]
        ),
        None,
    ),
    "sum of no transpose": (
        "reduce_before_transpose",
        lambda: relay.sum(relay.exp(cube), axis=1),
        None,
    ),
    "transpose of no product": (
        "transpose_of_product",
        lambda: relay.transpose(relay.exp(cube), [0, 2, 1]),
        None,
    ),
    "product to other places": (
        "transpose_of_product",
        lambda: relay.transpose(relay.nn.batch_matmul(batch, const(2, 6, 8)), [1, 0, 2]),
        None,
    ),
    "columns of a dense": (
        "slice_rows_before_dense",
        lambda: relay.strided_slice(relay.nn.dense(x, const(6, 8)), [0, 1], [4, 3]),
        None,
    ),
    "rows of a dense": (
        "slice_weights_of_sliced_dense",
        lambda: relay.strided_slice(relay.nn.dense(x, const(6, 8)), [1, 0], [3, 6]),
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
    "cast that loses digits": (
        "merge_casts",
        lambda: relay.cast(relay.cast(x, "float16"), "float32"),
        None,
    ),
    "cast of large integers to floats": (
        "merge_casts",
        lambda: relay.cast(relay.cast(var("wide", 4, dtype="int64"), "float64"), "int32"),
        None,
    ),
    "joined transposes to different places": (
        "join_before_transpose",
        lambda: relay.concatenate(
            [relay.transpose(var(f"{axes}", 4, 4, 4), axes) for axes in ([0, 2, 1], [1, 0, 2])],
            axis=0,
        ),
        None,
    ),
    "joined slices with a gap": (
        "concatenation_of_slices",
        lambda: relay.concatenate(
            [relay.strided_slice(x, [0], [2]), relay.strided_slice(x, [3], [4])], axis=0
        ),
        None,
    ),
    "joined slices in another order": (
        "concatenation_of_slices",
        lambda: relay.concatenate(
            [relay.strided_slice(x, [2], [4]), relay.strided_slice(x, [0], [2])], axis=0
        ),
        None,
    ),
    "slice across two joined parts": (
        "slice_of_concatenation",
        lambda: relay.strided_slice(relay.concatenate([x, y], axis=0), [3], [5]),
        None,
    ),
    "pools whose windows would reach across": (
        "join_before_pool",
        lambda: relay.concatenate([relay.nn.max_pool2d(item) for item in (image, planes)], axis=2),
        "windows would reach across the parts",
    ),
    "joined functions of what is computed": (
        "join_before_function",
        lambda: relay.concatenate(
            [relay.nn.relu(relay.nn.dense(item, const(8, 8))) for item in (x, y)], axis=0
        ),
        "a part is computed, and the function with it",
    ),
    "broadcast of both operands": (
        "drop_broadcast_of_first_operand",
        lambda: relay.broadcast_to(var("row", 1, 8), (4, 8)) + var("other", 1, 8),
        "the other operand does not have all of the extents",
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


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_rule_leaves_alone(case: str) -> None:
    name, make, reason = LEFT_ALONE[case]
    found = graph(make())
    before = [node.op for node in found.calls()]
    reasons = refusals(found, RULES[name])
    assert reason in reasons if reason else not reasons
    assert apply_rules(found, [RULES[name]]) == []
    assert [node.op for node in found.calls()] == before
