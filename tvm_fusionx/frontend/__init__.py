"""ONNX file to Relay module: static shapes, constants folded, node names kept."""

from tvm_fusionx.frontend.constant_inputs import SHAPE_LIKE_INPUTS, inputs_needed_as_constants
from tvm_fusionx.frontend.from_onnx import from_onnx

__all__ = ["SHAPE_LIKE_INPUTS", "from_onnx", "inputs_needed_as_constants"]
