"""How one stage reads another: index maps, and which axes of a dot product play which role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.block import BlockInfo, Stage, loads_of
from tvm_fusionx.tir.dot_call import is_dot_call, sides_of


def reads_of(stage: Stage, data: Any) -> list[Any]:
    """Return the loads that `stage` makes from the buffer with data variable `data`."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if node.buffer.data.same_as(data):
            found.append(node)

    # Callbacks for loads only: the body may be large.
    tir.stmt_functor.ir_transform(stage.block.body, visit, None, ["tir.BufferLoad"])
    return found


def variables_of(expr: Any) -> set[Any]:
    """Return the variables that occur in `expr`."""
    return set(tir.analysis.undefined_vars(expr)) if not isinstance(expr, tir.Var) else {expr}


def lie_in_one_piece(stage: Stage, axes: list[Any]) -> bool:
    """Tell whether all that a stage reads or writes along `axes` is one run of elements.

    Parameters
    ----------
    axes
        Neighbouring iterators of the stage, innermost last.
    """
    variables, body = [it.var for it in axes], stage.block.body
    if not isinstance(body, tir.BufferStore):
        return False
    for each in (body, *loads_of(body)):
        indices, shape = list(each.indices), [int(size) for size in each.buffer.shape]
        if not any(var in variables_of(index) for index in indices for var in variables):
            continue
        outer, last = indices[: -len(axes)], indices[-len(axes) :]
        if (
            len(last) < len(axes)
            or not all(index.same_as(var) for index, var in zip(last, variables, strict=True))
            or any(
                size != it.extent for it, size in zip(axes[1:], shape[1 - len(axes) :], strict=True)
            )
            or any(var in variables_of(index) for index in outer for var in variables)
        ):
            return False
    return True


def single_access(stage: Stage, data: Any) -> list[Any] | None:
    """Return the indices at which `stage` reads a buffer, or None when it reads it in two ways."""
    loads = reads_of(stage, data)
    if not loads:
        return None
    first = loads[0]
    for other in loads[1:]:
        if not all(
            tvm.ir.structural_equal(a, b) for a, b in zip(first.indices, other.indices, strict=True)
        ):
            return None
    return list(first.indices)


def index_path(info: BlockInfo, reader: str, source: str) -> list[Any] | None:
    """Return where `reader` reads `source` through spatial stages, in the reader's block variables.

    None when there is no path of spatial stages with a single access each.
    """
    analyzer = tvm.arith.Analyzer()
    start = info.stages[reader]
    for it in start.iters:
        if it.extent > 1:
            analyzer.bind(it.var, tvm.ir.Range(0, it.extent))
    upstream_of_source = info.downstream(source)
    stack: list[tuple[str, dict[Any, Any]]] = [(reader, {it.var: it.var for it in start.iters})]
    while stack:
        name, mapping = stack.pop()
        stage = info.stages[name]
        for producer in info.producers[name]:
            if producer != source and producer not in upstream_of_source:
                continue
            target = info.stages[producer]
            indices = single_access(stage, target.writes[0].data)
            if indices is None:
                continue
            here = [
                analyzer.simplify(tir.stmt_functor.substitute(index, mapping)) for index in indices
            ]
            if producer == source:
                return here
            if target.is_reduction:
                continue
            stores = _store_indices(target)
            if stores is not None:
                stack.append((producer, dict(zip(stores, here, strict=True))))
    return None


def _store_indices(stage: Stage) -> list[Any] | None:
    """Return the variables by which a stage indexes what it writes; None unless each is plain."""
    body = stage.block.body
    if not isinstance(body, tir.BufferStore):
        return None
    indices = list(body.indices)
    return indices if all(isinstance(index, tir.Var) for index in indices) else None


@dataclass(frozen=True)
class DotAxes:
    """The roles of a dot product's axes, as positions among its block variables.

    ``out[batch, m, n] += left[batch, m, k] * right[batch, n, k]``; the right operand is the one
    that varies along the last output axis.
    """

    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    left: Any
    """The load whose element is broadcast along a vector."""
    right: Any
    """The load that yields a vector."""


def dot_axes(stage: Stage) -> DotAxes | None:
    """Return the roles of a dot stage's axes, or None when it is not a plain product of loads."""
    value = stage.block.body.value
    own = stage.writes[0].data
    is_own = isinstance(value.a, tir.BufferLoad) and value.a.buffer.data.same_as(own)
    product = value.b if is_own else value.a
    if is_dot_call(product):
        # Integers that one instruction multiplies lie side by side: the first tells where.
        left, right = (side[0] for side in sides_of(product))
        right = _of_groups(right)
    elif isinstance(product, tir.Mul):
        left, right = product.a, product.b
    else:
        return None
    if not (isinstance(left, tir.BufferLoad) and isinstance(right, tir.BufferLoad)):
        return None
    spatial = [index for index, it in enumerate(stage.iters) if not it.is_reduction]
    wide = [index for index in spatial if stage.iters[index].extent > 1]
    last = wide[-1] if wide else spatial[-1]
    in_left = _vars_in(left)
    in_right = _vars_in(right)
    last_var = stage.iters[last].var
    if last_var in in_left and last_var not in in_right:
        left, right, in_left, in_right = right, left, in_right, in_left
    batch, m, n = [], [], []
    for index in wide:
        var = stage.iters[index].var
        if var in in_left and var in in_right:
            batch.append(index)
        elif var in in_left:
            m.append(index)
        else:
            n.append(index)
    k = [index for index, it in enumerate(stage.iters) if it.is_reduction and it.extent > 1]
    return DotAxes(tuple(batch), tuple(m), tuple(n), tuple(k), left, right)


def _of_groups(load: Any) -> Any:
    """Return a load of integers packed in groups as one of the tensor of groups."""
    shape = load.buffer.shape[:-1]
    groups = tir.decl_buffer(shape, load.buffer.dtype, load.buffer.name, data=load.buffer.data)
    return tir.BufferLoad(groups, load.indices[:-1])


def _vars_in(load: Any) -> set[Any]:
    found: set[Any] = set()
    for index in load.indices:
        found |= variables_of(index)
    return found


def is_contiguous_along(load: Any, var: Any) -> bool:
    """Tell whether neighbours along `var` are neighbours in memory (within a packed panel)."""
    last = load.indices[-1]
    is_panel = isinstance(last, tir.FloorMod)
    if not is_panel and any(var in variables_of(index) for index in load.indices[:-1]):
        return False
    position = last.a if is_panel else last
    step = tir.stmt_functor.substitute(position, {var: var + tir.const(1, var.dtype)})
    return bool(tvm.arith.Analyzer().can_prove_equal(step - position, 1))


def needs_panels(stage: Stage) -> Any | None:
    """Return the data variable of a dot's vector operand when its columns are not contiguous."""
    axes = dot_axes(stage)
    if axes is None or len(axes.n) != 1:
        return None
    if is_contiguous_along(axes.right, stage.iters[axes.n[0]].var):
        return None
    return axes.right.buffer.data


def coefficients(index: Any, *variables: Any) -> tuple[int, ...] | None:
    """Return the factors of `variables` in a linear `index`, then its constant; None if not so."""
    linear = tvm.arith.detect_linear_equation(index, list(variables))
    if len(linear) == 0 or not all(isinstance(part, tir.IntImm) for part in linear):
        return None
    return tuple(int(part) for part in linear)
