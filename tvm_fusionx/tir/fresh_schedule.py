"""A ``tir.Schedule`` of one function, as all of ours are made."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir


def fresh_schedule(func: Any, seed: int | None = None) -> Any:
    """Return a ``tir.Schedule`` of `func`, which is its ``main``.

    Without the checks and the drawings of errors, which only debugging needs.
    """
    module = tvm.IRModule({"main": func})
    return tir.Schedule(module, seed=seed, debug_mask="none", error_render_level="none")
