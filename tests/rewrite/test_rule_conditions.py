"""Every condition of every rule: a graph on which the rule must not be applied."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tests.rewrite.convolutions_left_alone import CONVOLUTIONS
from tests.rewrite.products_left_alone import PRODUCTS
from tests.rewrite.rule_examples import refusals
from tvm_fusionx.rewrite import ALL_RULES
from tvm_fusionx.rewrite.engine import apply_rules

RULES = {rule.name: rule for rule in ALL_RULES}

x, y = var("x", 4, 8), var("y", 4, 8)
n, m = var("n", 4, 8, dtype="int32"), var("m", 4, 8, dtype="int32")
cube, batch = var("cube", 2, 3, 4), var("batch", 2, 4, 8)
image, planes = var("image", 1, 4, 8, 8), var("planes", 1, 4, 1, 8)

# Rule, graph it must leave alone, and the reason it gives when it matched at all.
LEFT_ALONE: dict[str, tuple[str, Callable[[], relay.Expr], str | None]] = {
    **CONVOLUTIONS,
    **PRODUCTS,
    "factor not known": (
        "merge_constant_factors",
        lambda: x * y * relay.const(3.0),
        "an operand is not a constant",
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
    "softmax between other places": (
        "softmax_without_transposes",
        lambda: relay.transpose(
            relay.nn.softmax(relay.transpose(cube, [1, 0, 2]), axis=0), [0, 2, 1]
        ),
        None,
    ),
    "shift that may be infinite": (
        "softmax_without_shift",
        lambda: relay.nn.softmax(x + var("mask", 4, 1)),
        "an operand may be infinite or NaN",
    ),
    "shift of a logarithm that may be infinite": (
        "log_softmax_without_shift",
        lambda: relay.nn.log_softmax(x + var("mask", 4, 1)),
        "an operand may be infinite or NaN",
    ),
    "largest of all rows": (
        "softmax_without_centre",
        lambda: relay.nn.softmax(x - relay.max(x, keepdims=True)),
        "an operand may be infinite or NaN",
    ),
    "largest of something else": (
        "softmax_without_centre",
        lambda: relay.nn.softmax(x - relay.max(y, axis=1, keepdims=True)),
        "an operand may be infinite or NaN",
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
