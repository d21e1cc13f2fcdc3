"""Layouts: chosen once on the graph, constants packed at compile time."""

from tvm_fusionx.layout.batched_integers import pack_batched_integers
from tvm_fusionx.layout.block_weights import pack_block_weights
from tvm_fusionx.layout.brain_products import multiply_brains
from tvm_fusionx.layout.constant_uses import most_narrow_uses
from tvm_fusionx.layout.convolution import pack_convolutions
from tvm_fusionx.layout.dense import pack_dense, transpose_weights
from tvm_fusionx.layout.half_products import multiply_halves
from tvm_fusionx.layout.half_sums import sum_in_halves
from tvm_fusionx.layout.similar import reuse_similar
from tvm_fusionx.layout.single_blocks import compute_in_single
from tvm_fusionx.layout.sparse import has_zeros, pack_sparse
from tvm_fusionx.layout.stored_floats import BRAIN, HALF, store_narrow
from tvm_fusionx.layout.strassen import multiply_by_strassen
from tvm_fusionx.layout.textures import prepare_textures
from tvm_fusionx.layout.winograd import pack_winograd

__all__ = [
    "BRAIN",
    "HALF",
    "compute_in_single",
    "has_zeros",
    "most_narrow_uses",
    "multiply_brains",
    "multiply_by_strassen",
    "multiply_halves",
    "pack_batched_integers",
    "pack_block_weights",
    "pack_convolutions",
    "pack_dense",
    "pack_sparse",
    "pack_winograd",
    "prepare_textures",
    "reuse_similar",
    "store_narrow",
    "sum_in_halves",
    "transpose_weights",
]
