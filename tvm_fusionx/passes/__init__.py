"""The Relay passes that users put in a ``tvm.transform.Sequential``."""

from tvm_fusionx.passes.fuse_by_mapping import FuseByMapping
from tvm_fusionx.passes.outline_static import OutlineStatic
from tvm_fusionx.passes.pack_float16 import PackFloat16
from tvm_fusionx.passes.pack_layouts import PackLayouts
from tvm_fusionx.passes.pack_textures import PackTextures
from tvm_fusionx.passes.rewrite_graph import RewriteGraph
from tvm_fusionx.passes.rewrite_quantized import RewriteQuantized

__all__ = [
    "FuseByMapping",
    "OutlineStatic",
    "PackFloat16",
    "PackLayouts",
    "PackTextures",
    "RewriteGraph",
    "RewriteQuantized",
]
