"""Similar rows of a product: how they are hashed and put together, and what that saves."""

from tvm_fusionx.reuse.choice import Choice
from tvm_fusionx.reuse.clusters import Clustered, cluster
from tvm_fusionx.reuse.layer import ReuseLayer

__all__ = ["Choice", "Clustered", "ReuseLayer", "cluster"]
