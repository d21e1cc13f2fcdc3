"""Layouts: chosen once on the graph, constants packed at compile time."""

from tvm_fusionx.layout.convolution import pack_convolutions

__all__ = ["pack_convolutions"]
