"""Matrix products whose sides do not fit, which TVM's type relation of ``nn.dense`` lets pass."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.errors import ShapeError


def _why_not(call: Any) -> str | None:
    if getattr(call.op, "name", "") != "nn.dense":
        return None
    left, right = (arg.checked_type.shape[-1] for arg in call.args)
    is_known = isinstance(left, tvm.tir.IntImm) and isinstance(right, tvm.tir.IntImm)
    return None if not is_known or int(left) == int(right) else f"{left} columns and {right} rows"


def check_products(mod: tvm.IRModule) -> None:
    """Refuse products of matrices whose inner sizes differ.

    Raises
    ------
    ShapeError
        Naming the ONNX node.
    """
    wrong: list[tuple[Any, str]] = []

    def look(expr: Any) -> None:
        if isinstance(expr, relay.Call):
            why = _why_not(expr)
            if why is not None:
                wrong.append((expr, why))

    relay.analysis.post_order_visit(mod["main"], look)
    if wrong:
        call, why = wrong[0]
        name = call.span.source_name.name if call.span is not None else ""
        raise ShapeError(
            f"node {name!r}",
            expected="matrices whose inner sizes are equal",
            found=why,
            next_step="The model is damaged, or an input has another shape than it was made for.",
        )
