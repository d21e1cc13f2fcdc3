"""Faults planted in rules: on a right side, in what Python writes, in its conditions."""

from __future__ import annotations

import ast
import contextlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import tvm

from tests.rewrite.rule_examples import build, versions
from tvm_fusionx.ecg import Graph
from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.rewrite import Refused, Rule
from tvm_fusionx.rewrite.rule import Attempt, Domain
from tvm_fusionx.rewrite.term import LITERAL, Term

OTHER_OPERATOR = {
    "abs": "negative",
    "add": "subtract",
    "divide": "multiply",
    "exp": "tanh",
    "log": "abs",
    "logical_and": "logical_or",
    "logical_or": "logical_and",
    "max": "min",
    "maximum": "minimum",
    "min": "max",
    "minimum": "maximum",
    "multiply": "add",
    "negative": "abs",
    "power": "multiply",
    "rsqrt": "sqrt",
    "sqrt": "rsqrt",
    "subtract": "add",
    "sum": "max",
    "tanh": "exp",
}
ORDERED = ("divide", "power", "subtract")


def in_term(term: Term) -> Iterator[Term]:
    """Yield the term with one operand flipped, one operator or one number changed."""
    if term.op in ORDERED and term.operands[0] != term.operands[1]:
        yield replace(term, operands=tuple(reversed(term.operands)))
    if term.op in OTHER_OPERATOR:
        yield replace(term, op=OTHER_OPERATOR[term.op])
    if term.op == LITERAL:
        yield replace(term, number=term.number + 1)
    for position, operand in enumerate(term.operands):
        for fault in in_term(operand):
            operands = list(term.operands)
            operands[position] = fault
            yield replace(term, operands=tuple(operands))


# ---- what a rule in Python writes ---------------------------------------------------------------

Change = Callable[[Graph, Node, "list[Value]"], "Value | None"]


def _flipped(graph: Graph, node: Node, operands: list[Value]) -> Value | None:
    if len(operands) != 2 or operands[0] is operands[1]:
        return None
    if node.op not in (*ORDERED, "concatenate", "nn.dense", "nn.batch_matmul"):
        return None
    return graph.call(node.op, operands[::-1], node.attrs, grouping=node.grouping)


def _of_another_operator(graph: Graph, node: Node, operands: list[Value]) -> Value | None:
    other = OTHER_OPERATOR.get(node.op)
    return graph.call(other, operands, node.attrs) if other else None


def _with_other_constants(graph: Graph, node: Node, operands: list[Value]) -> Value | None:
    changed = [
        graph.constant(value.array + 1, value.dtype) if value.is_constant else value
        for value in operands
    ]
    if changed == operands:
        return None
    return graph.call(node.op, changed, node.attrs, grouping=node.grouping)


def _moved_elsewhere(graph: Graph, node: Node, operands: list[Value]) -> Value | None:
    """Return a slice one further on, a transpose to other places, a reduction over other axes."""
    attrs = node.attrs
    if node.op == "strided_slice":
        by = -1 if any(int(begin) for begin in attrs["begin"]) else 1
        begin, end = ([int(item) + by for item in attrs[name]] for name in ("begin", "end"))
        changed = attrs.replace(begin=tuple(begin), end=tuple(end))
    elif node.op == "transpose":
        changed = attrs.replace(axes=tuple(reversed([int(axis) for axis in attrs["axes"]])))
    elif "axis" in attrs and isinstance(attrs["axis"], tuple):
        rank = len(operands[0].shape)
        changed = attrs.replace(axis=tuple((int(axis) + 1) % rank for axis in attrs["axis"]))
    else:
        return None
    return graph.call(node.op, operands, changed, grouping=node.grouping)


CHANGES: dict[str, Change] = {
    "operands flipped": _flipped,
    "another operator": _of_another_operator,
    "other constants": _with_other_constants,
    "moved elsewhere": _moved_elsewhere,
}


def with_change(rule: Rule, change: Change, which: int) -> Rule:
    """Return the rule with the call number `which` of what it writes changed, where it can be."""

    def attempts(graph: Graph, node: Node) -> Iterator[Attempt]:
        for attempt in rule.attempts(graph, node):
            yield lambda attempt=attempt: changed(graph, attempt)

    def changed(graph: Graph, attempt: Attempt) -> Any:
        mark = graph.mark()
        answer = attempt()
        if answer is None or isinstance(answer, Refused):
            return answer
        written = graph.reachable_since(mark, [new for _, new in answer])
        copies: dict[Value, Value] = {}
        calls = sorted((item for item in written if item.is_call), key=lambda item: item.number)
        for number, call in enumerate(calls):
            operands = [copies.get(value, value) for value in call.operands]
            made = change(graph, call, operands) if number == which else None
            if made is None:
                made = graph.call(call.op, operands, call.attrs, grouping=call.grouping)
            copies[call[0]] = made
        return [(old, copies.get(new, new)) for old, new in answer]

    return replace(rule, attempts=attempts)


def calls_written(rule: Rule) -> list[tuple[Graph, Node, list[Value]]]:
    """Return the calls that a rule writes for its own example, with their operands."""
    graph = build(rule, versions(rule)[0], dtype=_dtype(rule))
    for node in graph.calls():
        if node.op not in rule.roots:
            continue
        for attempt in rule.attempts(graph, node):
            mark = graph.mark()
            answer = attempt()
            if answer and not isinstance(answer, Refused):
                read = [new for old, new in answer if _is_read(graph, old)]
                written = graph.reachable_since(mark, read)
                calls = sorted((c for c in written if c.is_call), key=lambda item: item.number)
                return [(graph, call, list(call.operands)) for call in calls]
    return []


def _is_read(graph: Graph, value: Value) -> bool:
    return value in graph.outputs or any(value in u.operands for u in graph.users(value.node))


def _dtype(rule: Rule) -> str:
    return "int32" if rule.domain is Domain.INTEGER else "float32"


def in_python(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """Yield a rule in Python with one fault in what it writes, and the fault in words."""
    for which, (graph, call, operands) in enumerate(calls_written(rule)):
        for name, change in CHANGES.items():
            with contextlib.suppress(tvm.TVMError):
                made = change(graph, call, operands)
                if made is not None and made.type == call.outputs[0]:
                    yield f"{name} of call {which}, {call.op}", with_change(rule, change, which)


# ---- conditions in Python -----------------------------------------------------------------------


def without_conditions(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """Yield a rule in Python with one of its refusals gone, and that refusal's source."""
    function = next(
        cell.cell_contents
        for cell in rule.attempts.__closure__ or ()
        if inspect.isfunction(cell.cell_contents)
    )
    source = textwrap.dedent(inspect.getsource(function))
    for number in range(len(_refusals(ast.parse(source)))):
        tree = ast.parse(source)
        (definition,) = tree.body
        assert isinstance(definition, ast.FunctionDef)
        definition.decorator_list = []
        refusal = _refusals(tree)[number]
        text = ast.unparse(refusal.test)
        refusal.test = ast.Constant(value=False)
        scope = dict(function.__globals__)
        exec(compile(ast.fix_missing_locations(tree), rule.name, "exec"), scope)
        yield text, replace(rule, attempts=_attempts_of(scope[definition.name]))


def _refusals(tree: ast.AST) -> list[ast.If]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and _is_refusal(node.body) and not node.orelse
    ]


def _is_refusal(body: Sequence[ast.stmt]) -> bool:
    if len(body) != 1:
        return False
    if isinstance(body[0], ast.Continue):
        return True
    if not isinstance(body[0], ast.Return):
        return False
    value = body[0].value
    is_none = isinstance(value, ast.Constant) and value.value is None
    return is_none or (isinstance(value, ast.Call) and ast.unparse(value.func) == "Refused")


def _attempts_of(
    function: Callable[[Graph, Node], Any],
) -> Callable[[Graph, Node], Iterator[Attempt]]:
    def attempts(graph: Graph, node: Node) -> Iterator[Attempt]:
        yield lambda: function(graph, node)

    return attempts
