"""What a softmax between two matrix products looks like inside a fused block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.template import UnschedulableError
from tvm_fusionx.tir.block import BlockInfo, Stage, describe_block, loads_of
from tvm_fusionx.tir.index_maps import variables_of
from tvm_fusionx.tir.inline import inline_spatial

# Axes of a batched product's result: head, row, column.
PRODUCT_AXES = 3

# An element of an operand: takes head, position and depth (or column).
Element = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Softmax:
    """The stages of ``softmax(finish(queries . keys)) . values``, and the expressions in them."""

    scores: str
    between: tuple[str, ...]
    """Names of the stages between the products."""
    values: str
    heads: int
    rows: int
    columns: int
    """Keys, which are the scores of a row."""
    depth: int
    width: int
    """Elements of a value."""
    query: Element
    key: Element
    value: Element
    """Takes head, key and column."""
    finish: Callable[[Any, Any, Any, Any], Any]
    """Takes head, row, key and a score, and returns what the softmax sees."""


def inline_around_softmax(sch: Any, info: BlockInfo) -> BlockInfo:
    """Inline all but the products and the softmax between them.

    Work before the products is done where their operands are copied, once an element; work on the
    scores where they leave the registers.
    """
    softmax: set[str] = set()
    for stage in info.reductions:
        if not stage.is_dot:
            softmax |= {stage.name} | info.downstream(stage.name)
    for name, stage in info.stages.items():
        if name not in softmax | set(info.outputs) and not stage.is_reduction:
            with contextlib.suppress(tir.ScheduleError):
                sch.compute_inline(sch.get_block(name))
    return inline_spatial(sch, describe_block(sch.mod["main"], info.cpu), keep_operands=False)


def find_softmax(info: BlockInfo) -> Softmax:
    """Return the products and the softmax of a block whose other stages are inlined.

    Raises
    ------
    UnschedulableError
        When the block is something else; the message says what.
    """
    values = _last_product(info)
    terms = _product(values)
    total_load, exp_load, value = _weighted(terms)
    exponential = _writer(info, exp_load)
    exp_at = _bound(exponential, exp_load.indices)
    difference = _exponent(exponential)
    maximum = _writer(info, difference.b)
    _need(
        _reduces(maximum, tir.Max) and _same_row(maximum, difference, exponential),
        "what its exponentials lack is not the largest of the row",
    )
    total = _writer(info, total_load)
    _need(
        _reduces(total, tir.Add) and _sums(total, exp_load.buffer, total_load, exp_load, values),
        "what divides its exponentials is not their sum",
    )
    score_load = _score_load(info, difference.a)
    scores = _writer(info, score_load)
    left, right = _product(scores)
    names = (maximum.name, exponential.name, total.name)
    for name in (scores.name, *names):
        inside = {scores.name, *names, values.name}
        _need(set(info.consumers[name]) <= inside, "its scores are read elsewhere")
        _need(name not in info.outputs, "it stores its scores")
    batch, row, column = (it.var for it in values.iters[:PRODUCT_AXES])
    key = values.iters[PRODUCT_AXES].var
    ranges = {it.var: tvm.ir.Range(0, it.extent) for it in values.iters}
    place = [_simplified(_put(each, exp_at), ranges) for each in score_load.indices]
    _need(
        place[1].same_as(row) and place[2].same_as(key),
        "its second product does not read the rows of the first",
    )
    _need(variables_of(place[0]) <= {batch}, "its heads are not those of the scores")
    _need(not variables_of(value) & {row}, "its values differ from row to row")
    head, query_row, key_row = (it.var for it in scores.iters[:PRODUCT_AXES])
    depth = scores.iters[PRODUCT_AXES].var
    if variables_of(left) & {key_row}:
        left, right = right, left
    _need(
        not variables_of(left) & {key_row} and not variables_of(right) & {query_row},
        "its first product is not one of rows",
    )
    finished = _put(difference.a, exp_at)

    def finish(at_head: Any, at_row: Any, at_key: Any, score: Any) -> Any:
        def replaced(load: Any) -> Any:
            return score if load.buffer.data.same_as(score_load.buffer.data) else None

        # Scores first: their indices may not be written in vectors.
        stmt = tir.stmt_functor.ir_transform(
            tir.Evaluate(finished), None, replaced, ["tir.BufferLoad"]
        )
        return _put(stmt.value, {batch: at_head, row: at_row, key: at_key})

    def operand(expr: Any, position: Any, inner: Any) -> Element:
        def element(at_head: Any, at_position: Any, at_inner: Any) -> Any:
            at = {batch: at_head}
            return _put(expr, {head: _put(place[0], at), position: at_position, inner: at_inner})

        return element

    def element_of_value(at_head: Any, at_key: Any, at_column: Any) -> Any:
        return _put(value, {batch: at_head, key: at_key, column: at_column})

    extents = [it.extent for it in values.iters]
    return Softmax(
        scores.name,
        names,
        values.name,
        heads=extents[0],
        rows=extents[1],
        columns=extents[3],
        depth=scores.iters[PRODUCT_AXES].extent,
        width=extents[2],
        query=operand(left, query_row, depth),
        key=operand(right, key_row, depth),
        value=element_of_value,
        finish=finish,
    )


def _need(is_met: bool, reason: str) -> None:
    if not is_met:
        raise UnschedulableError(reason)


def _put(expr: Any, at: dict[Any, Any]) -> Any:
    """Substitute, in the type of each variable."""
    typed = {
        var: tir.Cast(var.dtype, index) if index.dtype != var.dtype else index
        for var, index in at.items()
    }
    return tir.stmt_functor.substitute(expr, typed)


def _simplified(expr: Any, ranges: dict[Any, Any]) -> Any:
    analyzer = tvm.arith.Analyzer()
    for var, extent in ranges.items():
        analyzer.bind(var, extent)
    return analyzer.simplify(expr)


def _last_product(info: BlockInfo) -> Stage:
    """Return the reduction that all others reach."""
    stage = info.reductions[-1] if info.reductions else None
    _need(stage is not None, "it has no reductions")
    assert stage is not None
    others = {each.name for each in info.reductions} - {stage.name}
    _need(others <= info.upstream(stage.name), "its dot products do not follow each other")
    return stage


def _product(stage: Stage) -> tuple[Any, Any]:
    """Return the factors of a batched matrix product in float32."""
    kinds = [it.is_reduction for it in stage.iters]
    _need(kinds == [False] * PRODUCT_AXES + [True], "its dot products are not matrix products")
    _need(stage.writes[0].dtype == "float32", "it is not a product of float32")
    value = stage.block.body.value
    _need(isinstance(value, tir.Add) and isinstance(value.b, tir.Mul), "it sums no products")
    return value.b.a, value.b.b


def _weighted(terms: tuple[Any, Any]) -> tuple[Any, Any, Any]:
    """Return the loads of the sum and of the exponential, and the other factor."""
    for weight, value in (terms, terms[::-1]):
        if isinstance(weight, tir.Div) and all(
            isinstance(side, tir.BufferLoad) for side in (weight.a, weight.b)
        ):
            return weight.b, weight.a, value
    raise UnschedulableError("its weights are not those of a softmax")


def _writer(info: BlockInfo, load: Any) -> Stage:
    for stage in info.stages.values():
        if any(buffer.data.same_as(load.buffer.data) for buffer in stage.writes):
            return stage
    raise UnschedulableError("its weights are not those of a softmax")


def _exponent(stage: Stage) -> Any:
    """Return the difference under the exponential."""
    value = stage.block.body.value
    _need(
        isinstance(value, tir.Call)
        and value.op.name == "tir.exp"
        and isinstance(value.args[0], tir.Sub)
        and isinstance(value.args[0].b, tir.BufferLoad),
        "its weights are not those of a softmax",
    )
    return value.args[0]


def _bound(stage: Stage, indices: Any) -> dict[Any, Any]:
    """Return what a load puts in the place of a stage's spatial axes."""
    stored = stage.block.body.indices
    _need(
        len(stored) == len(indices) and all(isinstance(each, tir.Var) for each in stored),
        "its weights are not those of a softmax",
    )
    return dict(zip(stored, indices, strict=True))


def _reduces(stage: Stage, combine: Any) -> bool:
    is_last = [it.is_reduction for it in stage.iters].count(True) == 1
    return is_last and isinstance(stage.block.body.value, combine)


def _same_row(maximum: Stage, difference: Any, exponential: Stage) -> bool:
    """Tell whether the largest is taken of what the exponential takes it from, along one row."""
    at = _bound(maximum, difference.b.indices)
    row = set().union(*(variables_of(index) for index in difference.b.indices))
    rest = [it for it in exponential.iters if it.var not in row and it.extent > 1]
    reduced = next(it for it in maximum.iters if it.is_reduction)
    if len(rest) > 1 or (rest and rest[0].extent != reduced.extent):
        return False
    column = rest[0] if rest else exponential.iters[-1]
    term = _put(maximum.block.body.value.b, {**at, reduced.var: column.var})
    return _are_equal(term, difference.a, exponential)


def _are_equal(one: Any, other: Any, stage: Stage) -> bool:
    ranges = {it.var: tvm.ir.Range(0, it.extent) for it in stage.iters}
    return bool(tvm.ir.structural_equal(_simplified(one, ranges), _simplified(other, ranges)))


def _sums(total: Stage, exponentials: Any, total_load: Any, exp_load: Any, values: Stage) -> bool:
    """Tell whether `total` sums the exponentials of a row of weights."""
    term = total.block.body.value.b
    if not (isinstance(term, tir.BufferLoad) and term.buffer.data.same_as(exponentials.data)):
        return False
    at = _bound(total, total_load.indices)
    reduced = next(it for it in total.iters if it.is_reduction)
    key = values.iters[PRODUCT_AXES]
    if reduced.extent != key.extent:
        return False
    read = [_put(index, {**at, reduced.var: key.var}) for index in term.indices]
    return all(
        _are_equal(one, other, values) for one, other in zip(read, exp_load.indices, strict=True)
    )


def _score_load(info: BlockInfo, expr: Any) -> Any:
    """Return the load of the scores in what the softmax sees; the only one, perhaps repeated."""
    products = {buffer.data for stage in info.reductions for buffer in stage.writes}
    loads = [load for load in loads_of(expr) if load.buffer.data in products]
    _need(bool(loads), "its weights are not those of a softmax")
    _need(
        all(tvm.ir.structural_equal(load, loads[0]) for load in loads),
        "its softmax reads several scores at once",
    )
    return loads[0]
