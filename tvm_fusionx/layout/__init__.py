"""Layouts: chosen once on the graph, constants packed at compile time."""

from tvm_fusionx.layout.convolution import pack_convolutions
from tvm_fusionx.layout.dense import pack_dense, transpose_weights
from tvm_fusionx.layout.float16 import store_float16
from tvm_fusionx.layout.textures import prepare_textures
from tvm_fusionx.layout.winograd import pack_winograd

__all__ = [
    "pack_convolutions",
    "pack_dense",
    "pack_winograd",
    "prepare_textures",
    "store_float16",
    "transpose_weights",
]
