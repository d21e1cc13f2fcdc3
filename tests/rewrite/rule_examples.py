"""Graphs built from a rule's own declaration: its left side on the example shapes it names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tests.relay_modules import run_plain
from tvm_fusionx.ecg import Graph, TensorType, Value, to_relay
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.ecg.relay_types import infer_types, relay_type
from tvm_fusionx.operators import COMMUTATIVE
from tvm_fusionx.rewrite import Refused, Rule
from tvm_fusionx.rewrite.term import LITERAL, VARIABLE, Term

# What a variable of a left side may have to be for the rule's condition to hold.
INPUT, NON_NEGATIVE, CONSTANT = "input", "non-negative input", "constant"

# Attributes of the examples; without, TVM's defaults.
ATTRIBUTES: dict[str, dict[str, Any]] = {
    **{name: {"axis": [1]} for name in ("sum", "mean", "prod", "max")},
    "nn.dense": {"units": None},
    "nn.max_pool2d": {"pool_size": [2, 2], "strides": [2, 2], "dilation": [1, 1]},
}


def in_every_order(term: Term) -> list[Term]:
    """Return the term with the operands of its commutative operators in every order."""
    if not term.operands:
        return [term]
    out = []
    for operands in itertools.product(*map(in_every_order, term.operands)):
        out.append(Term(term.op, operands, term.attrs))
        if term.op in COMMUTATIVE and operands[0] != operands[1]:
            out.append(Term(term.op, tuple(reversed(operands)), term.attrs))
    return out


def build(rule: Rule, side: Term, kinds: Mapping[str, str]) -> Graph:
    """Return a graph that returns `side`, its variables being what `kinds` says."""
    graph = Graph(infer_types)
    generator = np.random.default_rng(5)
    values: dict[str, Value] = {}
    for name, example in rule.examples.items():
        if not isinstance(example, tuple):
            values[name] = graph.constant(example, "float32")
        elif kinds[name] == CONSTANT:
            values[name] = graph.constant(generator.uniform(0.5, 2, example).astype("float32"))
        else:
            type_ = TensorType(example, "float32")
            value = graph.input(name, type_, relay.Var(name, relay_type(type_)))
            is_input = kinds[name] == INPUT
            values[name] = value if is_input else graph.call("abs", [value])
    graph.outputs = (_add(graph, side, values),)
    return graph


def _add(graph: Graph, term: Term, values: Mapping[str, Value]) -> Value:
    if term.op == VARIABLE:
        return values[term.name]
    if term.op == LITERAL:
        return graph.constant(term.number, "float32")
    attrs = ATTRIBUTES.get(term.op, {})
    operands = [_add(graph, operand, values) for operand in term.operands]
    has_attributes = bool(relay.op.get(term.op).attrs_type_key)
    return graph.call(
        term.op, operands, default_attributes(term.op, **attrs) if has_attributes else None
    )


def example_kinds(rule: Rule) -> dict[str, str]:
    """Return the first choice of inputs and constants under which the rule does not refuse."""
    assert rule.lhs is not None
    names = list(rule.examples)
    for kinds in itertools.product((INPUT, NON_NEGATIVE, CONSTANT), repeat=len(names)):
        chosen = dict(zip(names, kinds, strict=True))
        if is_accepted(build(rule, rule.lhs, chosen), rule):
            return chosen
    raise AssertionError(f"{rule.name} refuses its own examples")


def answers(graph: Graph, rule: Rule) -> Iterator[Sequence[Any] | Refused]:
    """Yield what the rule answers at each call of the graph; the graph stays as it is."""
    for node in graph.calls():
        if node.op in rule.roots:
            for attempt in rule.attempts(graph, node):
                mark = graph.mark()
                answer = attempt()
                if answer is not None:
                    yield answer
                graph.rollback(mark)


def is_accepted(graph: Graph, rule: Rule) -> bool:
    """Tell whether the rule would replace anything."""
    return any(not isinstance(answer, Refused) for answer in answers(graph, rule))


def refusals(graph: Graph, rule: Rule) -> list[str]:
    """Return the reasons for which the rule is not applied."""
    return [answer.reason for answer in answers(graph, rule) if isinstance(answer, Refused)]


def evaluate(*graphs: Graph) -> list[list[np.ndarray]]:
    """Return the outputs of graphs over the same inputs, all computed by plain TVM in one build."""
    functions = [to_relay(graph) for graph in graphs]
    bodies = [
        list(func.body.fields) if isinstance(func.body, relay.Tuple) else [func.body]
        for func in functions
    ]
    results = list(itertools.chain.from_iterable(bodies))
    func = relay.Function(functions[0].params, relay.Tuple(results))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(func))
    outputs = iter(run_plain(mod, _inputs(mod)))
    return [list(itertools.islice(outputs, len(body))) for body in bodies]


def _inputs(mod: Any) -> dict[str, np.ndarray]:
    """Return inputs of both signs and away from zero, so that quotients stay moderate."""
    generator = np.random.default_rng(11)
    inputs = {}
    for param in mod["main"].params:
        shape = [int(extent) for extent in param.checked_type.shape]
        signs = generator.choice([-1.0, 1.0], shape)
        values = generator.uniform(0.5, 2, shape) * signs
        inputs[param.name_hint] = values.astype(param.checked_type.dtype)
    return inputs
