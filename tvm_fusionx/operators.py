"""What is known of each Relay operator of TVM 0.19: mapping type, algebraic laws, arithmetic cost.

Mapping types are DNNFusion's (section 3.1, Table 2; ONNX names translated to Relay's). They are the
types before broadcasting is looked at: see ``fusion.classify`` for that.
"""

from __future__ import annotations

from enum import Enum


class MappingType(Enum):
    """How an operator's input elements map to its output elements; DNNFusion, section 3.1."""

    ONE_TO_ONE = "One-to-One"
    REORGANIZE = "Reorganize"
    SHUFFLE = "Shuffle"
    ONE_TO_MANY = "One-to-Many"
    MANY_TO_MANY = "Many-to-Many"
    OPAQUE = "Opaque"
    """Not one of the paper's: data-dependent shapes, random state, calls of unknown functions."""


ONE_TO_ONE = frozenset(
    [
        "abs",
        "acos",
        "acosh",
        "add",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "bitwise_and",
        "bitwise_not",
        "bitwise_or",
        "bitwise_xor",
        "cast",
        "cast_like",
        "ceil",
        "clip",
        "concatenate",
        "copy",
        "cos",
        "cosh",
        "divide",
        "dyn.nn.pad",
        "dyn.strided_slice",
        "equal",
        "erf",
        "exp",
        "fast_erf",
        "fast_exp",
        "fast_tanh",
        "fixed_point_multiply",
        "fixed_point_multiply_per_axis",
        "floor",
        "floor_divide",
        "floor_mod",
        "full_like",
        "greater",
        "greater_equal",
        "hardswish",
        "isfinite",
        "isinf",
        "isnan",
        "left_shift",
        "less",
        "less_equal",
        "log",
        "log10",
        "log2",
        "logical_and",
        "logical_not",
        "logical_or",
        "logical_xor",
        "matrix_set_diag",
        "maximum",
        "minimum",
        "mod",
        "multiply",
        "negative",
        "nn.batch_norm",
        "nn.bias_add",
        "nn.dilate",
        "nn.dropout",
        "nn.leaky_relu",
        "nn.pad",
        "nn.prelu",
        "nn.relu",
        "not_equal",
        "ones_like",
        "power",
        "qnn.abs",
        "qnn.add",
        "qnn.concatenate",
        "qnn.dequantize",
        "qnn.erf",
        "qnn.exp",
        "qnn.hardswish",
        "qnn.leaky_relu",
        "qnn.log",
        "qnn.mul",
        "qnn.quantize",
        "qnn.requantize",
        "qnn.rsqrt",
        "qnn.sigmoid",
        "qnn.simulated_dequantize",
        "qnn.simulated_quantize",
        "qnn.sqrt",
        "qnn.subtract",
        "qnn.tanh",
        "reinterpret",
        "relay.op.annotation.simulated_quantize",
        "right_shift",
        "round",
        "rsqrt",
        "sequence_mask",
        "sigmoid",
        "sign",
        "sin",
        "sinh",
        "slice_like",
        "split",
        "sqrt",
        "stack",
        "strided_set",
        "strided_slice",
        "subtract",
        "tan",
        "tanh",
        "trilu",
        "trunc",
        "trunc_divide",
        "trunc_mod",
        "where",
        "zeros_like",
    ]
)

REORGANIZE = frozenset(
    [
        "contrib_reverse_reshape",
        "dyn.expand_dims",
        "dyn.reshape",
        "dyn.squeeze",
        "expand_dims",
        "nn.batch_flatten",
        "reshape",
        "reshape_like",
        "squeeze",
    ]
)

# `layout_transform` is Shuffle here, not Reorganize: it moves elements in memory.
SHUFFLE = frozenset(
    [
        "auto_scheduler_layout_transform",
        "layout_transform",
        "meta_schedule_layout_transform",
        "nn.batch_to_space_nd",
        "nn.depth_to_space",
        "nn.space_to_batch_nd",
        "nn.space_to_depth",
        "reverse",
        "reverse_sequence",
        "transpose",
        "vision.yolo_reorg",
    ]
)

ONE_TO_MANY = frozenset(
    [
        "adv_index",
        "arange",
        "broadcast_to",
        "broadcast_to_like",
        "dyn.broadcast_to",
        "dyn.full",
        "dyn.image.resize2d",
        "dyn.nn.upsampling",
        "dyn.nn.upsampling3d",
        "dyn.one_hot",
        "dyn.ones",
        "dyn.tile",
        "dyn.zeros",
        "full",
        "gather",
        "gather_nd",
        "image.crop_and_resize",
        "image.resize1d",
        "image.resize2d",
        "image.resize3d",
        "meshgrid",
        "nn.mirror_pad",
        "nn.upsampling",
        "nn.upsampling3d",
        "one_hot",
        "ones",
        "repeat",
        "sliding_window",
        "take",
        "tile",
        "zeros",
    ]
)

MANY_TO_MANY = frozenset(
    [
        "all",
        "any",
        "argmax",
        "argmin",
        "collapse_sum_like",
        "collapse_sum_to",
        "cumprod",
        "cumsum",
        "dft",
        "einsum",
        "image.affine_grid",
        "image.dilation2d",
        "image.grid_sample",
        "max",
        "mean",
        "min",
        "nn.adaptive_avg_pool1d",
        "nn.adaptive_avg_pool2d",
        "nn.adaptive_avg_pool3d",
        "nn.adaptive_max_pool1d",
        "nn.adaptive_max_pool2d",
        "nn.adaptive_max_pool3d",
        "nn.avg_pool1d",
        "nn.avg_pool2d",
        "nn.avg_pool2d_grad",
        "nn.avg_pool3d",
        "nn.batch_matmul",
        "nn.bitserial_conv2d",
        "nn.bitserial_dense",
        "nn.contrib_conv2d_NCHWc",
        "nn.contrib_conv2d_gemm_weight_transform",
        "nn.contrib_conv2d_gemm_without_weight_transform",
        "nn.contrib_conv2d_winograd_nnpack_weight_transform",
        "nn.contrib_conv2d_winograd_weight_transform",
        "nn.contrib_conv2d_winograd_without_weight_transform",
        "nn.contrib_conv3d_winograd_weight_transform",
        "nn.contrib_conv3d_winograd_without_weight_transform",
        "nn.contrib_dense_pack",
        "nn.contrib_depthwise_conv2d_NCHWc",
        "nn.conv1d",
        "nn.conv1d_transpose",
        "nn.conv2d",
        "nn.conv2d_backward_weight",
        "nn.conv2d_transpose",
        "nn.conv3d",
        "nn.conv3d_transpose",
        "nn.correlation",
        "nn.cross_entropy",
        "nn.cross_entropy_with_logits",
        "nn.deformable_conv2d",
        "nn.dense",
        "nn.fast_softmax",
        "nn.global_avg_pool2d",
        "nn.global_max_pool2d",
        "nn.group_norm",
        "nn.instance_norm",
        "nn.internal.sparse_dense_padded",
        "nn.l2_normalize",
        "nn.layer_norm",
        "nn.log_softmax",
        "nn.lrn",
        "nn.matmul",
        "nn.max_pool1d",
        "nn.max_pool2d",
        "nn.max_pool2d_grad",
        "nn.max_pool3d",
        "nn.nll_loss",
        "nn.softmax",
        "nn.sparse_add",
        "nn.sparse_conv2d",
        "nn.sparse_dense",
        "nn.sparse_transpose",
        "prod",
        "qnn.avg_pool2d",
        "qnn.batch_matmul",
        "qnn.contrib_dense_pack",
        "qnn.conv2d",
        "qnn.conv2d_transpose",
        "qnn.dense",
        "qnn.softmax",
        "stft",
        "sum",
        "variance",
        "vision.roi_align",
        "vision.roi_pool",
    ]
)

OPAQUE = frozenset(
    [
        "annotation.bitpack_end",
        "annotation.bitpack_start",
        "annotation.cast_hint",
        "annotation.checkpoint",
        "annotation.compiler_begin",
        "annotation.compiler_end",
        "annotation.stop_fusion",
        "annotation.with_funcid",
        "argsort",
        "argwhere",
        "call_lowered",
        "debug",
        "device_copy",
        "dyn.sparse_to_dense",
        "dyn.topk",
        "invert_permutation",
        "memory.alloc_storage",
        "memory.alloc_tensor",
        "memory.kill",
        "ndarray_size",
        "nn.bitpack",
        "nn.fifo_buffer",
        "on_device",
        "parser.MetaRef",
        "random.multinomial",
        "random.normal",
        "random.threefry_generate",
        "random.threefry_split",
        "random.uniform",
        "scatter",
        "scatter_elements",
        "scatter_nd",
        "searchsorted",
        "shape_of",
        "sort",
        "sparse_fill_empty_rows",
        "sparse_reshape",
        "sparse_to_dense",
        "topk",
        "unique",
        "unravel_index",
        "vision.all_class_non_max_suppression",
        "vision.get_valid_counts",
        "vision.multibox_prior",
        "vision.multibox_transform_loc",
        "vision.non_max_suppression",
        "vision.proposal",
        "vision.regular_non_max_suppression",
        "vm.invoke_tvm_op",
        "vm.reshape_tensor",
        "vm.shape_of",
    ]
)

MAPPING_TYPES: dict[str, MappingType] = {
    name: mapping_type
    for names, mapping_type in (
        (ONE_TO_ONE, MappingType.ONE_TO_ONE),
        (REORGANIZE, MappingType.REORGANIZE),
        (SHUFFLE, MappingType.SHUFFLE),
        (ONE_TO_MANY, MappingType.ONE_TO_MANY),
        (MANY_TO_MANY, MappingType.MANY_TO_MANY),
        (OPAQUE, MappingType.OPAQUE),
    )
    for name in names
}

# TVM computes these with extern code or hand-written loops (its own pattern is Opaque), which no
# other operator can be fused with.
EXTERN_KERNELS = frozenset(
    [
        "cumprod",
        "cumsum",
        "dft",
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


def mapping_type_of(op: str) -> MappingType:
    """Return the mapping type in the table; an operator that is not there is opaque."""
    return MAPPING_TYPES.get(op, MappingType.OPAQUE)
