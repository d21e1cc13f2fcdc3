"""Kernels that read or write a tensor as an image, a pixel of four values at a time.

Works on device functions just before TVM prints them, so that what a kernel really loads and
stores decides, whichever template made it. There a tensor is flat: a pixel's row and column are
the quotient and the remainder of its number by the columns of the image.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.gpu.textures import PIXEL

ACTIVATION_SCOPE = "global.texture"
"""TVM's name of an image whose columns are the last axis but one, and whose rows all before."""

COORDINATE = "int32"


def why_not_pixels(func: Any, data: Any, is_written: bool) -> str | None:
    """Return why a kernel cannot take a parameter as an image, or None.

    Parameters
    ----------
    func
        A lowered device function.
    data
        One of its parameters, a pointer.
    is_written
        Whether the kernel is to write the image; else it is to read it.
    """
    reasons: list[str] = []
    analyzer = analyzer_of(func)

    def visit(node: Any) -> None:
        if isinstance(node, tir.Var):
            if node.same_as(data):
                reasons.append("it is passed on as a pointer")
            return
        is_store = isinstance(node, tir.BufferStore)
        if not isinstance(node, (tir.BufferLoad, tir.BufferStore)):
            return
        if not node.buffer.data.same_as(data):
            return
        if is_store != is_written:
            reasons.append("it is both read and written")
        elif not _is_pixel(node, analyzer):
            reasons.append(f"{'stores' if is_store else 'loads'} are no whole pixels")

    tir.stmt_functor.post_order_visit(func.body, visit)
    return reasons[0] if reasons else None


def in_pixels(func: Any, columns: Mapping[Any, int]) -> Any:
    """Return a device function that takes parameters as images.

    Parameters
    ----------
    func
        A lowered device function; :func:`why_not_pixels` has no objection.
    columns
        For each parameter that becomes an image, the columns of the image.
    """
    analyzer = analyzer_of(func)
    element = tvm.ir.PointerType(tvm.ir.PrimType("float32"), ACTIVATION_SCOPE)
    images = {data: tir.Var(data.name, element) for data in columns}

    def rewrite(node: Any) -> Any:
        data = node.buffer.data
        if data not in images:
            return None
        place = coordinates(node.indices[0].base, columns[data], analyzer)
        if isinstance(node, tir.BufferStore):
            stored = (images[data], *place, node.value)
            return tir.Evaluate(tir.call_intrin("void", "tir.texture2d_store", *stored))
        whole = tir.Ramp(tir.const(0, COORDINATE), tir.const(1, COORDINATE), PIXEL)
        loaded = (images[data], *place, whole)
        return tir.call_intrin(node.dtype, "tir.texture2d_load", *loaded)

    body = tir.stmt_functor.ir_transform(
        func.body, None, rewrite, ["tir.BufferLoad", "tir.BufferStore"]
    )
    params = [images.get(param, param) for param in func.params]
    return tir.PrimFunc(params, body, func.ret_type, None, func.attrs)


def coordinates(base: Any, columns: int, analyzer: Any) -> tuple[Any, Any]:
    """Return column and row of the pixel that begins at a place of a flat tensor.

    Without a division where the parts of `base` tell the row; a convolution that tests whether it
    is inside of the picture keeps one. What is never negative when it is read may divide as C does.
    """
    pixel = analyzer.simplify(tir.floordiv(base, PIXEL))
    column = _as_c_divides(analyzer.simplify(tir.floormod(pixel, columns)), analyzer)
    row = _as_c_divides(analyzer.simplify(tir.floordiv(pixel, columns)), analyzer)
    if column is None or row is None:
        pixel = tir.truncdiv(base, PIXEL)
        column, row = tir.truncmod(pixel, columns), tir.truncdiv(pixel, columns)
    return column.astype(COORDINATE), row.astype(COORDINATE)


def _as_c_divides(expr: Any, analyzer: Any) -> Any | None:
    """Return `expr` with divisions that truncate; None where one may be of something negative.

    The code generator comes after the pass that would lower divisions that round down.
    """
    refused = []

    def rewrite(node: Any) -> Any:
        if not isinstance(node.b, tir.IntImm) or analyzer.const_int_bound(node.a).min_value < 0:
            refused.append(node)
            return None
        divide = tir.truncdiv if isinstance(node, tir.FloorDiv) else tir.truncmod
        return divide(node.a, node.b)

    kinds = ["tir.FloorDiv", "tir.FloorMod"]
    changed = tir.stmt_functor.ir_transform(tir.Evaluate(expr), None, rewrite, kinds)
    return None if refused else changed.value


def _is_pixel(node: Any, analyzer: Any) -> bool:
    """Tell whether a load or store is of four neighbours that begin where a pixel does."""
    if len(node.indices) != 1 or not isinstance(node.indices[0], tir.Ramp):
        return False
    ramp = node.indices[0]
    if int(ramp.lanes) != PIXEL or not tir.analysis.expr_deep_equal(
        ramp.stride, tir.const(1, ramp.stride.dtype)
    ):
        return False
    start = analyzer.modular_set(ramp.base)
    return bool(start.coeff % PIXEL == 0 and start.base % PIXEL == 0)


def analyzer_of(func: Any) -> Any:
    """Return an analyzer that knows how far the loops and threads of a function run."""
    analyzer = tvm.arith.Analyzer()

    def visit(node: Any) -> bool:
        if isinstance(node, tir.For):
            analyzer.bind(node.loop_var, tvm.ir.Range.from_min_extent(node.min, node.extent))
        elif isinstance(node, tir.AttrStmt) and node.attr_key == "thread_extent":
            analyzer.bind(node.node.var, tvm.ir.Range.from_min_extent(0, node.value))
        return True

    # Outer loops first: the extent of an inner one may depend on them.
    tir.stmt_functor.pre_order_visit(func.body, visit)
    return analyzer
