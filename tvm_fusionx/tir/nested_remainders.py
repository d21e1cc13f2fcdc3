"""Keep remainders of remainders: TVM's flattening of buffers computes some of them wrongly.

``tir.FlattenBuffer`` turns the index ``x % 8 % 3`` into ``x % 3``: its iterator maps forget that
the inner remainder ends before the outer one does. Such indices arise when loops over several axes
are fused and a stage reads by the remainder of one of these axes. Written with the truncating
remainder, which iterator maps leave alone, they stay what they are.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

# Below, the analyzer does not know how small a dividend gets; buffers have fewer elements.
_LEAST_KNOWN = -(1 << 31)

_ACCESSES = ["tir.BufferLoad", "tir.BufferStore"]


def keep_nested_remainders(func: Any) -> Any:
    """Return `func` (scheduled TensorIR) with every index that TVM would get wrong rewritten."""
    domains: dict[Any, Any] = {}

    def enter(node: Any) -> Any:
        if isinstance(node, tir.For):
            domains[node.loop_var] = tvm.ir.Range.from_min_extent(node.min, node.extent)
        return None

    def leave(node: Any) -> Any:
        if isinstance(node, tir.For):
            return None
        block = node.block
        bindings = {
            it.var: value for it, value in zip(block.iter_vars, node.iter_values, strict=True)
        }
        body = _rewrite_accesses(block.body, bindings, domains)
        init = None if block.init is None else _rewrite_accesses(block.init, bindings, domains)
        if body.same_as(block.body) and (init is None or init.same_as(block.init)):
            return None
        changed = tir.Block(
            block.iter_vars,
            block.reads,
            block.writes,
            block.name_hint,
            body,
            init,
            block.alloc_buffers,
            block.match_buffers,
            block.annotations,
        )
        return tir.BlockRealize(node.iter_values, node.predicate, changed)

    body = tir.stmt_functor.ir_transform(func.body, enter, leave, ["tir.For", "tir.BlockRealize"])
    return func if body.same_as(func.body) else func.with_body(body)


def _rewrite_accesses(body: Any, bindings: dict[Any, Any], domains: dict[Any, Any]) -> Any:
    # Unrolled kernels have thousands of accesses, whose few remainders are the same objects.
    distinct = {node.handle.value: node for node in _remainders_within(body)}
    analyzer = _analyzer(domains)
    if not any(_is_misread_when_bound(node, bindings, analyzer) for node in distinct.values()):
        return body

    def rewrite(node: Any) -> Any:
        indices = [_rewrite_index(index, bindings, domains) for index in node.indices]
        if all(new.same_as(old) for new, old in zip(indices, node.indices, strict=True)):
            return None
        if isinstance(node, tir.BufferLoad):
            return tir.BufferLoad(node.buffer, indices)
        return tir.BufferStore(node.buffer, node.value, indices)

    return tir.stmt_functor.ir_transform(body, None, rewrite, _ACCESSES)


def _rewrite_index(index: Any, bindings: dict[Any, Any], domains: dict[Any, Any]) -> Any:
    if not _remainders(index):
        return index
    analyzer = _analyzer(domains)

    def rewrite(node: Any) -> Any:
        if not _is_misread_when_bound(node, bindings, analyzer):
            return None
        dividend = tir.stmt_functor.substitute(node.a, bindings)
        least = int(analyzer.const_int_bound(dividend).min_value)
        if least < _LEAST_KNOWN:
            return None
        lift = max(0, -(least // int(node.b))) * int(node.b)
        return tir.truncmod(node.a + tir.const(lift, node.a.dtype), node.b)

    statement = tir.Evaluate(index)
    changed = tir.stmt_functor.ir_transform(statement, None, rewrite, ["tir.FloorMod"])
    return index if changed.same_as(statement) else changed.value


def _analyzer(domains: dict[Any, Any]) -> Any:
    analyzer = tvm.arith.Analyzer()
    for variable, domain in domains.items():
        analyzer.bind(variable, domain)
    return analyzer


def _remainders(expr: Any) -> list[Any]:
    """Return the remainders by a constant within `expr`."""
    return _remainders_within(tir.Evaluate(expr))


def _remainders_within(statement: Any) -> list[Any]:
    """Return the remainders by a constant within a statement, as often as they occur."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node.b, tir.IntImm):
            found.append(node)

    tir.stmt_functor.ir_transform(statement, None, visit, ["tir.FloorMod"])
    return found


def _is_misread_when_bound(node: Any, bindings: dict[Any, Any], analyzer: Any) -> bool:
    """Tell whether a remainder has one within that TVM gets wrong, the block's variables bound."""
    bound = analyzer.simplify(tir.stmt_functor.substitute(node, bindings))
    return any(map(_is_misread, _remainders(bound)))


def _is_misread(remainder: Any) -> bool:
    """Tell whether a remainder is of another one that it does not divide."""
    return any(int(inner.b) % int(remainder.b) for inner in _remainders(remainder.a))
