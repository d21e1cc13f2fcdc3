"""Blocks that are marked to be summed up in halves."""

from __future__ import annotations

from typing import Any

from tvm import relay

from tests.schedules.half_blocks import in_16_bits
from tvm_fusionx.expressions.half_terms import marked, register_half_terms
from tvm_fusionx.tir.half_terms import Mark

HALF = "float16"


def summed_in_halves(body: relay.Expr, mark: Mark) -> relay.Expr:
    """Return a float32 block stored in halves, the weights of its convolution marked."""
    register_half_terms()
    return _Marking(mark).visit(in_16_bits(body, HALF))


class _Marking(relay.ExprMutator):  # type: ignore[misc]
    def __init__(self, mark: Mark) -> None:
        super().__init__()
        self.mark = mark

    def visit_call(self, call: Any) -> Any:
        made = super().visit_call(call)
        if not any(kind in made.op.name for kind in ("conv2d", "dense")):
            return made
        data, weights = made.args
        return relay.Call(made.op, [data, marked(weights, self.mark)], made.attrs)
