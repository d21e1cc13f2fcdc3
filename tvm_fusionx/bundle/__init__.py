"""A model as a library with a C interface: its kernels, its memory plan, and nothing of TVM."""

from tvm_fusionx.bundle.export import export_bundle

__all__ = ["export_bundle"]
