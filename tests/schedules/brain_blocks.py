"""Products of bfloat16 with weights in groups, as blocks for kernels."""

from __future__ import annotations

from tvm import relay

from tests.relay_modules import var
from tvm_fusionx.expressions.integer_products import register_integer_products

BRAIN = "bfloat16"
DEPTH = 4
PACKED_WEIGHTS = "OIHW1i4o4i"


def brain_window(inputs: int, side: int, outputs: int, taps: int, stride: int = 1) -> relay.Expr:
    """Return a window over `inputs` channels of a square image, with a ReLU, all of bfloat16."""
    register_integer_products()
    x = var("x", 1, inputs // DEPTH, side, side, DEPTH, dtype=BRAIN)
    w = var("w", outputs // 4, inputs // DEPTH, taps, taps, 1, 4, DEPTH, dtype=BRAIN)
    sums = relay.nn.contrib_conv2d_nchwc(
        *(relay.cast(each, "float32") for each in (x, w)),
        *((stride,) * 2, (taps // 2,) * 4, (1, 1), 1, outputs, (taps, taps)),
        *("NCHW4c", PACKED_WEIGHTS, "NCHW4c", "float32"),
    )
    return relay.cast(relay.nn.relu(sums), BRAIN)


def brain_dense(rows: int, columns: int, terms: int, width: int = 8) -> relay.Expr:
    """Return a matrix product with weights in panels of `width` columns, all of bfloat16."""
    register_integer_products()
    x = var("x", rows, terms, dtype=BRAIN)
    w = var("w", columns // width, terms // DEPTH, width, DEPTH, dtype=BRAIN)
    sums = relay.nn.contrib_dense_pack(
        *(relay.cast(each, "float32") for each in (x, w)),
        f"NC{width}n{DEPTH}c",
        columns,
        "float32",
    )
    return relay.cast(sums, BRAIN)
