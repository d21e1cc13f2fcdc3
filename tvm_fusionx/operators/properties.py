"""What else is known of Relay operators: kernels, kinds of loops, cost, and algebraic laws."""

from __future__ import annotations

from tvm_fusionx.operators.mapping_types import REORGANIZE, SHUFFLE

# TVM computes these with extern code or hand-written loops (its own pattern is Opaque), which no
# other operator can be fused with.
EXTERN_KERNELS = frozenset(
    [
        "cumprod",
        "cumsum",
        "dft",
        "fusionx.cached_attention",
        "fusionx.recurrent",
        "fusionx.reuse_conv2d",
        "fusionx.reuse_kept_conv2d",
        "nn.contrib_conv2d_winograd_nnpack_weight_transform",
        "nn.cross_entropy",
        "nn.cross_entropy_with_logits",
        "nn.lrn",
        "nn.sparse_add",
        "sliding_window",
        "stft",
    ]
)

# Sums of products over a shared axis: the operators that dominate a block's time.
CONTRACTIONS = frozenset(
    [
        "fusionx.batched_integers",
        "fusionx.block_dense",
        "fusionx.block_dense_with_minima",
        "fusionx.rounded_block_dense",
        "fusionx.rounded_block_dense_with_minima",
        "fusionx.sparse_conv2d_NCHWc",
        "fusionx.sparse_dense",
        "fusionx.sparse_filters_NCHWc",
        "nn.batch_matmul",
        "nn.contrib_conv2d_NCHWc",
        "nn.contrib_conv2d_winograd_without_weight_transform",
        "nn.contrib_dense_pack",
        "nn.contrib_depthwise_conv2d_NCHWc",
        "nn.conv1d",
        "nn.conv1d_transpose",
        "nn.conv2d",
        "nn.conv2d_transpose",
        "nn.conv3d",
        "nn.conv3d_transpose",
        "nn.deformable_conv2d",
        "nn.dense",
        "nn.matmul",
    ]
)

# Contractions whose weights are unpacked as they are loaded: by one kernel, made for that alone.
PACKED_PRODUCTS = frozenset(
    [
        "fusionx.block_dense",
        "fusionx.block_dense_with_minima",
        "fusionx.rounded_block_dense",
        "fusionx.rounded_block_dense_with_minima",
    ]
)

# Contractions with weights whose zeros are left out: by one kernel, made for that alone.
SPARSE_PRODUCTS = frozenset(
    ["fusionx.sparse_conv2d_NCHWc", "fusionx.sparse_dense", "fusionx.sparse_filters_NCHWc"]
)

# Position of the operand whose values say how long a kernel's loops run: lists of columns.
STEERING_OPERANDS = dict.fromkeys(SPARSE_PRODUCTS, 2)

# Positions of the operands that are places or numbers of rows: whole numbers that no result holds.
INDEX_OPERANDS = {
    "gather": (1,),
    "gather_nd": (1,),
    "reverse_sequence": (1,),
    "sequence_mask": (1,),
    "take": (1,),
}

# Reductions over the axes in the attribute `axis`; the paper's Reduce family.
AXIS_REDUCTIONS = frozenset(
    ["all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "sum", "variance"]
)

# A reduction and its broadcast back, over the one axis in the attribute `axis`.
AXIS_NORMALIZATIONS = frozenset(["nn.fast_softmax", "nn.log_softmax", "nn.softmax"])

# Each output element reads a window of the input.
WINDOW_REDUCTIONS = frozenset(
    [
        "nn.adaptive_avg_pool1d",
        "nn.adaptive_avg_pool2d",
        "nn.adaptive_avg_pool3d",
        "nn.adaptive_max_pool1d",
        "nn.adaptive_max_pool2d",
        "nn.adaptive_max_pool3d",
        "nn.avg_pool1d",
        "nn.avg_pool2d",
        "nn.avg_pool3d",
        "nn.global_avg_pool2d",
        "nn.global_max_pool2d",
        "nn.lrn",
        "nn.max_pool1d",
        "nn.max_pool2d",
        "nn.max_pool3d",
    ]
)

# Operators whose result is data moved or repeated, and nothing computed.
MOVEMENTS = (
    REORGANIZE
    | SHUFFLE
    | frozenset(
        [
            "broadcast_to",
            "concatenate",
            "copy",
            "nn.dilate",
            "nn.mirror_pad",
            "nn.pad",
            "repeat",
            "slice_like",
            "split",
            "stack",
            "strided_slice",
            "take",
            "tile",
        ]
    )
)

# A whole function call, a libm call or a polynomial, per element.
TRANSCENDENTALS = frozenset(
    [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cos",
        "cosh",
        "erf",
        "exp",
        "log",
        "log10",
        "log2",
        "power",
        "sigmoid",
        "sin",
        "sinh",
        "tan",
        "tanh",
    ]
)

# Operand order does not matter: a op b == b op a.
COMMUTATIVE = frozenset(
    [
        "add",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "maximum",
        "minimum",
        "multiply",
        "not_equal",
    ]
)

# Grouping does not matter (floating point: up to rounding): (a op b) op c == a op (b op c).
ASSOCIATIVE = frozenset(
    [
        "add",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "concatenate",
        "logical_and",
        "logical_or",
        "maximum",
        "minimum",
        "multiply",
        "nn.batch_matmul",
        "nn.dense",
        "nn.matmul",
    ]
)

# Distributes over addition (floating point: up to rounding): (a + b) op c == (a op c) + (b op c).
DISTRIBUTIVE = frozenset(
    [
        "divide",
        "mean",
        "multiply",
        "negative",
        "nn.batch_matmul",
        "nn.contrib_dense_pack",
        "nn.conv1d",
        "nn.conv2d",
        "nn.conv3d",
        "nn.dense",
        "nn.matmul",
        "sum",
    ]
)
