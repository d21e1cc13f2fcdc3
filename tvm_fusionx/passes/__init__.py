"""The Relay passes that users put in a ``tvm.transform.Sequential``."""

from tvm_fusionx.passes.compute_in_float32 import ComputeInFloat32
from tvm_fusionx.passes.fuse_by_mapping import FuseByMapping
from tvm_fusionx.passes.multiply_brains import MultiplyBrains
from tvm_fusionx.passes.multiply_by_strassen import MultiplyByStrassen
from tvm_fusionx.passes.multiply_halves import MultiplyHalves
from tvm_fusionx.passes.outline_static import OutlineStatic
from tvm_fusionx.passes.pack_floats import PackFloats
from tvm_fusionx.passes.pack_layouts import PackLayouts
from tvm_fusionx.passes.pack_sparse import PackSparse
from tvm_fusionx.passes.pack_textures import PackTextures
from tvm_fusionx.passes.reuse_similar import ReuseSimilar
from tvm_fusionx.passes.rewrite_graph import RewriteGraph
from tvm_fusionx.passes.rewrite_quantized import RewriteQuantized
from tvm_fusionx.passes.sum_in_halves import SumInHalves
from tvm_fusionx.passes.unroll_recurrent import UnrollRecurrent

__all__ = [
    "ComputeInFloat32",
    "FuseByMapping",
    "MultiplyBrains",
    "MultiplyByStrassen",
    "MultiplyHalves",
    "OutlineStatic",
    "PackFloats",
    "PackLayouts",
    "PackSparse",
    "PackTextures",
    "ReuseSimilar",
    "RewriteGraph",
    "RewriteQuantized",
    "SumInHalves",
    "UnrollRecurrent",
]
