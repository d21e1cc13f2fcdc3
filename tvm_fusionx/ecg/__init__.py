"""The extended computational graph, and the way from Relay to it and back."""

from tvm_fusionx.ecg.from_relay import NotAGraphError, from_relay
from tvm_fusionx.ecg.graph import Attributes, Graph, Node, Value
from tvm_fusionx.ecg.to_relay import to_relay
from tvm_fusionx.ecg.types import TensorType

__all__ = [
    "Attributes",
    "Graph",
    "Node",
    "NotAGraphError",
    "TensorType",
    "Value",
    "from_relay",
    "to_relay",
]
