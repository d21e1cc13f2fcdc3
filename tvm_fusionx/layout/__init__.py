"""Layouts: chosen once on the graph, constants packed at compile time."""

from tvm_fusionx.layout.convolution import pack_convolutions
from tvm_fusionx.layout.dense import pack_dense

__all__ = ["pack_convolutions", "pack_dense"]
