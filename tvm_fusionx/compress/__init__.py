"""An ONNX model or a torch module to a smaller one: ``fx.quantize``, ``fx.compress.prune``."""

# It bears its folder's name, so it is imported here: importing the folder later would put that in
# the function's place. Nothing heavy comes with it.
from tvm_fusionx.compress.prune.prune import prune

__all__ = ["prune"]
