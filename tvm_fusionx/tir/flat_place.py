"""Where an element of a flat buffer lies, so that neighbours can be told."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.index_maps import variables_of


class FlatPlace:
    """An index into a buffer; equal where buffer and index are the same expressions."""

    def __init__(self, data: Any, index: Any) -> None:
        self.data, self.index = data, index

    def __hash__(self) -> int:
        return int(tvm.ir.structural_hash(self.index))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FlatPlace)
            and self.data.same_as(other.data)
            and bool(tvm.ir.structural_equal(self.index, other.index))
        )

    def offset(self) -> int | None:
        """Return the constant part of the index; None where it is no arithmetic of variables."""
        variables = variables_of(self.index)
        if any("int" not in str(var.dtype) for var in variables):
            return None
        zeros = {var: tir.const(0, var.dtype) for var in variables}
        offset = tvm.arith.Analyzer().simplify(tir.stmt_functor.substitute(self.index, zeros))
        return int(offset) if isinstance(offset, tir.IntImm) else None

    def before(self, offset: int) -> FlatPlace:
        """Return the place `offset` elements before."""
        return FlatPlace(self.data, tvm.arith.Analyzer().simplify(self.index - offset))
