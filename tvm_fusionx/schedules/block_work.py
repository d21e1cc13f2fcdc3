"""What a block has to do at least: arithmetic and bytes, counted in its unscheduled TensorIR.

A schedule may do more (overlapping tiles, a value computed twice) and never less, so a time over
the time of this work is a distance from what is possible.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import tir

from tvm_fusionx.expressions.minimal_filtering import FILTERINGS
from tvm_fusionx.expressions.similar_products import REUSED, reuse_layer_of
from tvm_fusionx.expressions.sparse_filters import PLANES_OF_FILTERS
from tvm_fusionx.expressions.sparse_products import GEOMETRY as GEOMETRY_OF_LISTS
from tvm_fusionx.expressions.sparse_products import VALUE_AXES, Index
from tvm_fusionx.expressions.winograd import GEOMETRY, STAGE_OUTPUT, TRANSFORMS
from tvm_fusionx.late_passes.polynomials import replacement
from tvm_fusionx.operators.recurrent_layer import Layer
from tvm_fusionx.operators.recurrent_operator import LAYER, layer_of
from tvm_fusionx.schedules.winograd.apply_matrix import apply_matrix
from tvm_fusionx.tir.block import collect_blocks, loads_of
from tvm_fusionx.tir.dot_call import is_dot_call, sides_of

ONE_INSTRUCTION = (
    *(tir.Add, tir.Sub, tir.Mul, tir.Min, tir.Max, tir.Select),
    *(tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE, tir.And, tir.Or, tir.Not),
)
DIVISIONS = {"tir.sqrt": 1, "tir.rsqrt": 2}


@dataclass(frozen=True)
class Work:
    """What one run of a block takes at least.

    Attributes
    ----------
    flops
        Additions, multiplications and their like; a multiply-add is two, a division one, and a
        function (exp, tanh, erf) those of its polynomial.
    instructions
        The same with a multiply-add as one, and with a dot product of bytes that is added: what a
        vector unit issues for each lane.
    divisions
        Divisions and square roots, which another unit does.
    products
        Multiply-adds of sums of products, two operations each, among `flops`.
    read_bytes, written_bytes
        Elements of the parameters that are touched, each once.
    """

    flops: int = 0
    instructions: int = 0
    divisions: int = 0
    products: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Return the bytes read and written."""
        return self.read_bytes + self.written_bytes

    def plus(self, other: Work, times: int = 1) -> Work:
        """Return the sum of this and so many of the other, bytes left out."""
        return replace(
            self,
            flops=self.flops + times * other.flops,
            instructions=self.instructions + times * other.instructions,
            divisions=self.divisions + times * other.divisions,
            products=self.products + times * other.products,
        )


NOTHING = Work()
MULTIPLY_ADD = Work(flops=2, instructions=1)
OPERATION = Work(flops=1, instructions=1)
DIVISION = Work(flops=1, divisions=1)


def work_of(func: Any) -> Work:
    """Return the work of an unscheduled block."""
    total = NOTHING
    touched: dict[Any, int] = {}
    blocks = list(collect_blocks(func))
    transforms = _transforms(blocks)
    for block in blocks:
        if LAYER in block.annotations or REUSED in block.annotations:
            total = total.plus(_of_operator(block.annotations))
            for buffer in func.buffer_map.values():
                touched[buffer.data] = math.prod(map(int, buffer.shape))
            continue
        extents = {it.var: int(it.dom.extent) for it in block.iter_vars} | _in_lists(block)
        transform = transforms.get(block.name_hint)
        if transform is not None:
            made, own = transform
            total = total.plus(own, math.prod(extents.values()) // made)
        for store in _stores(block.body):
            if transform is None:
                total = total.plus(_expression(store.value, extents, store.buffer)[0])
            for load in loads_of(store.value):
                times = _points(load, extents)
                touched[load.buffer.data] = touched.get(load.buffer.data, 0) + times
            touched[store.buffer.data] = touched.get(store.buffer.data, 0) + math.prod(
                int(extent) for extent in store.buffer.shape
            )
    written = _written(func)
    read_bytes = written_bytes = 0
    for buffer in func.buffer_map.values():
        held = math.prod(int(extent) for extent in buffer.shape)
        size = min(held, touched.get(buffer.data, 0)) * max(1, np.dtype(buffer.dtype).itemsize)
        if buffer.data in written:
            written_bytes += size
        else:
            read_bytes += size
    return replace(total, read_bytes=read_bytes, written_bytes=written_bytes)


def _in_lists(block: Any) -> dict[Any, int]:
    """Return how many entries a sum of a sparse product has: those of its list, on average."""
    if PLANES_OF_FILTERS in block.annotations:
        kernels = next(it for it in block.iter_vars if it.iter_type == it.CommReduce)
        _, chunks, _, _, block_lanes = (int(each) for each in block.writes[0].buffer.shape)
        return {kernels.var: math.ceil(int(kernels.dom.extent) / (chunks * block_lanes))}
    if GEOMETRY_OF_LISTS not in block.annotations:
        return {}
    (entry,) = (it.var for it in block.iter_vars if it.iter_type == it.CommReduce)
    shapes = {tuple(map(int, region.buffer.shape)): region.buffer for region in block.reads}
    (index,) = (shape for shape, buffer in shapes.items() if str(buffer.dtype) == "int32")
    result = [int(extent) for extent in block.writes[0].buffer.shape]
    values = next(shape for shape in shapes if len(shape) == VALUE_AXES)
    groups = Index.of(values, index, result[1] * math.prod(result[4:])).groups
    return {entry: math.ceil(values[0] / groups)}


def _of_operator(annotations: Any) -> Work:
    """Return the work of an operator that is one kernel of ours, whole."""
    if LAYER in annotations:
        return _of_layer(layer_of(annotations))
    layer = reuse_layer_of(annotations)
    rows = layer.images * layer.pixels
    # Hashing, products of as many clusters as there may be, and their sums.
    hashing = rows * layer.columns * layer.bits
    # What calls share was multiplied when it was compiled.
    multiplied = 0 if layer.kept else layer.clusters
    products = layer.groups * multiplied * layer.columns * layer.channels
    sums = rows * layer.segment_count * layer.channels
    counted = hashing + products
    work = Work(flops=2 * counted, instructions=counted, products=2 * counted)
    return work.plus(OPERATION, sums)


def _of_layer(layer: Layer) -> Work:
    """Return the work of a recurrent layer: its products, and a function of each gate."""
    units = layer.steps * layer.batch * layer.directions * layer.hidden
    products = units * layer.gates * layer.hidden
    functions = layer.gates + (1 if layer.has_cell else 0)
    each = _function("tir.tanh", "float32", None)
    work = Work(flops=2 * products, instructions=products, products=2 * products)
    return work.plus(each, units * functions)


def _transforms(blocks: Sequence[Any]) -> dict[str, tuple[int, Work]]:
    """Return how many values each stage of minimal filtering makes at once, and their work."""
    tiles = [
        int(each.annotations[GEOMETRY][0]) for each in blocks if each.name_hint == STAGE_OUTPUT
    ]
    return {stage: _applied(tile, name) for tile in tiles for stage, name in TRANSFORMS.items()}


@functools.lru_cache
def _applied(tile: int, name: str) -> tuple[int, Work]:
    """Return how many values a matrix of minimal filtering makes at once, and their work.

    The matrices are mostly zeros and powers of two, and their rows share sums: what counts is what
    the kernel does.
    """
    matrix = getattr(FILTERINGS[tile], name)
    held: list[Any] = []

    def hold(expr: Any) -> Any:
        held.append(expr)
        return tir.Var("held", expr.dtype)

    values = [tir.Var(f"x{column}", "float32") for column in range(matrix.shape[1])]
    results = apply_matrix(matrix, values, hold)
    return matrix.shape[0], _together((*held, *results))


def _together(exprs: Iterable[Any]) -> Work:
    total = NOTHING
    for expr in exprs:
        total = total.plus(_counted(expr))
    return total


def _written(func: Any) -> set[Any]:
    return {region.buffer.data for block in collect_blocks(func) for region in block.writes}


def _stores(body: Any) -> list[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferStore):
            found.append(node)

    tir.stmt_functor.post_order_visit(body, visit)
    return found


def _variables(expr: Any, extents: Mapping[Any, int]) -> frozenset[Any]:
    found: set[Any] = set()

    def visit(node: Any) -> None:
        if isinstance(node, tir.Var) and node in extents:
            found.add(node)

    tir.stmt_functor.post_order_visit(expr, visit)
    return frozenset(found)


def _points(expr: Any, extents: Mapping[Any, int]) -> int:
    return math.prod(extents[variable] for variable in _variables(expr, extents))


def _expression(expr: Any, extents: Mapping[Any, int], stored: Any) -> tuple[Work, frozenset[Any]]:
    """Return the work of all values of `expr`, and the loops it depends on.

    A part that depends on fewer loops is computed once for the others: a row's mean is no work of
    the row's elements.
    """
    if isinstance(expr, tir.BufferLoad):
        return NOTHING, _variables(expr, extents)
    operands, own = _taken_apart(expr)
    total, depends = NOTHING, frozenset[Any]()
    for operand in operands:
        work, variables = _expression(operand, extents, stored)
        total, depends = total.plus(work), depends | variables
    if not operands:
        return NOTHING, _variables(expr, extents)
    points = math.prod(extents[variable] for variable in depends)
    if own.flops > own.instructions and any(_is_load_of(operand, stored) for operand in operands):
        own = replace(own, products=own.flops)
    return total.plus(own, points), depends


def _is_load_of(expr: Any, buffer: Any) -> bool:
    return isinstance(expr, tir.BufferLoad) and bool(expr.buffer.data.same_as(buffer.data))


def _taken_apart(expr: Any) -> tuple[list[Any], Work]:
    """Return the operands of an expression, and its own work a value."""
    if isinstance(expr, (tir.Add, tir.Sub)):
        for factor, other in ((expr.b, expr.a), (expr.a, expr.b)):
            if is_dot_call(factor):
                left, right = sides_of(factor)
                return [*left, *right, other], replace(MULTIPLY_ADD, flops=2 * len(left))
            factor = _guarded(factor)
            if isinstance(factor, tir.Mul):
                return [factor.a, factor.b, other], MULTIPLY_ADD
    if isinstance(expr, tir.Div):
        return [expr.a, expr.b], DIVISION
    if isinstance(expr, tir.Select):
        return [expr.condition, expr.true_value, expr.false_value], OPERATION
    if isinstance(expr, tir.Not):
        return [expr.a], OPERATION
    if isinstance(expr, ONE_INSTRUCTION):
        return [expr.a, expr.b], OPERATION
    if isinstance(expr, tir.Cast):
        return [expr.value], NOTHING
    if isinstance(expr, tir.Call):
        name = str(getattr(expr.op, "name", ""))
        if name == "tir.if_then_else":
            # Where the guard fails nothing is loaded: padding and concatenation are no arithmetic.
            return list(expr.args[1:]), NOTHING
        if name == "tir.reinterpret":
            return list(expr.args), NOTHING
        if name in DIVISIONS:
            return list(expr.args), Work(1, 0, DIVISIONS[name])
        return list(expr.args), _function(name, str(expr.dtype), _power_of(expr))
    return [], NOTHING


def _guarded(expr: Any) -> Any:
    """Return what is added where a test holds and nothing is where not, or `expr` itself."""
    is_guard = (
        isinstance(expr, tir.Call) and str(getattr(expr.op, "name", "")) == "tir.if_then_else"
    )
    if is_guard and isinstance(expr.args[2], tir.FloatImm) and not expr.args[2].value:
        return expr.args[1]
    return expr


def _power_of(call: Any) -> float | None:
    exponent = call.args[-1] if call.args else None
    return float(exponent.value) if isinstance(exponent, tir.FloatImm) else None


@functools.lru_cache
def _function(name: str, dtype: str, power: float | None) -> Work:
    """Return the work of one value of a function: of its polynomial where it has one."""
    x = tir.Var("x", dtype)
    arguments = [x] if power is None else [x, tir.FloatImm(dtype, power)]
    held: list[Any] = []

    def hold(expr: Any) -> Any:
        held.append(expr)
        return tir.Var("held", expr.dtype)

    call = tir.call_intrin(dtype, name, *arguments) if name.startswith("tir.") else None
    polynomial = None if call is None else replacement(call)
    if polynomial is None:
        return OPERATION
    result = polynomial(x, hold)
    return _together((*held, result))


def _counted(expr: Any) -> Work:
    operands, own = _taken_apart(expr)
    total = own
    for operand in operands:
        total = total.plus(_counted(operand))
    return total
