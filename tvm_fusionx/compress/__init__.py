"""A model to a smaller or faster one: ``fx.quantize``, ``fx.compress.prune``, ``.reuse``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# It bears its folder's name, so it is imported here: importing the folder later would put that in
# the function's place. Nothing heavy comes with it.
from tvm_fusionx.compress.prune.prune import prune

if TYPE_CHECKING:
    from tvm_fusionx.compress.similar.reuse import reuse

__all__ = ["prune", "reuse"]


def __getattr__(name: str) -> Any:
    """Import what builds models when it is asked for."""
    if name == "reuse":
        from tvm_fusionx.compress.similar.reuse import reuse

        return reuse
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
