"""Graphs built from a rule's own declaration, and what they compute, in numpy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.ecg import Graph, TensorType, Value
from tvm_fusionx.ecg.construct import dense
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.ecg.numpy_operators import evaluate as evaluate_call
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.ecg.relay_types import infer_types
from tvm_fusionx.operators import COMMUTATIVE
from tvm_fusionx.rewrite import Refused, Rule
from tvm_fusionx.rewrite.rule import Example, Kind
from tvm_fusionx.rewrite.term import LITERAL, VARIABLE, Term, choices_in, with_choices
from tvm_fusionx.rewrite.writing import grouping_of

# Attributes of the examples, unless the rule says otherwise; without, TVM's defaults.
ATTRIBUTES: dict[str, dict[str, Any]] = {
    **{
        name: {"axis": [1], "keepdims": True}
        for name in ("all", "any", "max", "mean", "min", "prod", "sum", "variance")
    },
    **{name: {"axis": [1]} for name in ("argmax", "argmin")},
    "cast": {"dtype": "float32"},
    "clip": {"a_min": -0.5, "a_max": 0.75},
    "concatenate": {"axis": 0},
    "nn.avg_pool2d": {"pool_size": [2, 2], "strides": [2, 2], "dilation": [1, 1]},
    "nn.batch_matmul": {"transpose_b": True},
    "nn.dense": {"units": None},
    "nn.matmul": {"units": None},
    "nn.max_pool2d": {"pool_size": [2, 2], "strides": [2, 2], "dilation": [1, 1]},
    "nn.pad": {"pad_width": [[1, 0], [0, 2]]},
    "nn.upsampling": {"scale_h": 2, "scale_w": 2},
}

# Constants are powers of two, so that what Python computes from them is exact in a proof.
POWERS_OF_TWO = (0.5, 1.0, 2.0, 4.0)


def versions(rule: Rule) -> list[tuple[Term, ...]]:
    """Return the rule's samples with each of the operators that they stand for."""
    names: dict[str, tuple[str, ...]] = {}
    for sample in rule.samples:
        names.update(choices_in(sample))
    return [
        tuple(
            with_choices(sample, dict(zip(names, chosen, strict=True))) for sample in rule.samples
        )
        for chosen in itertools.product(*names.values())
    ]


def in_every_order(term: Term) -> list[Term]:
    """Return the term with the operands of its commutative operators in every order."""
    out = []
    for operands in itertools.product(*map(in_every_order, term.operands)):
        out.append(replace(term, operands=operands))
        if term.op in COMMUTATIVE and operands[0] != operands[1]:
            out.append(replace(term, operands=tuple(reversed(operands))))
    return out


def build(
    rule: Rule,
    sides: Sequence[Term],
    examples: Mapping[str, Example] | None = None,
    dtype: str = "float32",
    seed: int = 5,
) -> Graph:
    """Return a graph that returns `sides`, its variables being what the rule's examples say."""
    graph = Graph(infer_types)
    generator = np.random.default_rng(seed)
    values = {
        name: _variable(graph, name, example, dtype, generator)
        for name, example in (examples or rule.examples).items()
    }
    graph.outputs = tuple(_add(graph, rule, side, values, dtype) for side in sides)
    graph.returns_tuple = len(sides) > 1
    return graph


def _variable(
    graph: Graph, name: str, example: Example, dtype: str, generator: np.random.Generator
) -> Value:
    if example.kind is Kind.CONSTANT:
        if example.number is not None:
            return graph.constant(np.full(example.shape, example.number), dtype)
        numbers = generator.choice(POWERS_OF_TWO, example.shape)
        return graph.constant(numbers * generator.choice((-1, 1), example.shape), dtype)
    kind = "bool" if name.startswith("is_") else dtype
    if example.kind is Kind.FINITE:
        whole = graph.input(name, TensorType(example.shape, "int8"))
        return graph.call("cast", [whole], default_attributes("cast", dtype=dtype))
    value = graph.input(name, TensorType(example.shape, kind))
    if example.kind is Kind.INPUT:
        return value
    if example.kind is Kind.PRODUCT:
        square = TensorType((example.shape[-1], example.shape[-1]), dtype)
        return dense(graph, value, graph.input(f"{name} weight", square))
    positive = graph.call("abs", [value])
    if example.kind is Kind.NON_NEGATIVE:
        return positive
    return graph.call("maximum", [positive, graph.constant(0.5, dtype)])


def _add(graph: Graph, rule: Rule, term: Term, values: Mapping[str, Value], dtype: str) -> Value:
    if term.op == VARIABLE:
        return values[term.name]
    operands = [
        None if operand.op == LITERAL else _add(graph, rule, operand, values, dtype)
        for operand in term.operands
    ]
    beside = next((value.dtype for value in operands if value and value.dtype != "bool"), dtype)
    filled = [
        graph.constant(operand.number, beside) if value is None else value
        for value, operand in zip(operands, term.operands, strict=True)
    ]
    attrs = {
        **ATTRIBUTES.get(term.op, {}),
        **rule.attributes.get(term.op, {}),
        **rule.attributes.get(term.tag, {}),
        **dict(term.attrs or ()),
    }
    has_attributes = bool(relay.op.get(term.op).attrs_type_key)
    return graph.call(
        term.op,
        filled,
        default_attributes(term.op, **attrs) if has_attributes else None,
        grouping=grouping_of(term.op, len(filled)),
    )


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


def replaced(rule: Rule, dtype: str = "float32") -> Iterator[tuple[Graph, Graph]]:
    """Yield the rule's left side and what it makes of it: every axis two long, then as declared."""
    small = {
        name: replace(example, shape=tuple(min(extent, 2) for extent in example.shape))
        for name, example in rule.examples.items()
    }
    for candidate in (replace(rule, examples=small), rule):
        try:
            before, after = (build(candidate, versions(rule)[0], dtype=dtype) for _ in range(2))
            (root,) = after.outputs
            attempt = next(iter(candidate.attempts(after, root.node)), None)
            answer = attempt() if attempt else None
        except tvm.TVMError:
            continue
        if isinstance(answer, list):
            after.outputs = (answer[0][1],)
            yield before, after


# ---- numbers ------------------------------------------------------------------------------------

Evaluate = Callable[[Node, "list[np.ndarray]"], "list[np.ndarray]"]


def evaluate(
    graph: Graph, inputs: Mapping[str, np.ndarray], evaluate_node: Evaluate = evaluate_call
) -> list[np.ndarray]:
    """Return what a graph computes, by numpy."""
    known: dict[Value, np.ndarray] = {}
    for node in graph.topological():
        if node.op == "input":
            known[node[0]] = inputs[node.name]
        elif node.op == "constant":
            known[node[0]] = node.payload
        else:
            results = evaluate_node(node, [known[value] for value in node.operands])
            known.update(zip(node, results, strict=True))
    return [known[value] for value in graph.outputs]


def draw(graph: Graph, seed: int = 11) -> dict[str, np.ndarray]:
    """Return inputs of both signs and away from zero, so that quotients stay moderate."""
    generator = np.random.default_rng(seed)
    inputs = {}
    for node in graph.inputs:
        type_ = node.outputs[0]
        if type_.dtype == "bool":
            inputs[node.name] = generator.integers(0, 2, type_.shape).astype("bool")
        elif type_.is_float:
            signs = generator.choice([-1.0, 1.0], type_.shape)
            values = generator.uniform(0.5, 2, type_.shape) * signs
            inputs[node.name] = values.astype(type_.dtype)
        else:
            limits = np.iinfo(type_.dtype)
            values = generator.integers(limits.min, limits.max, type_.shape, endpoint=True)
            inputs[node.name] = values.astype(type_.dtype)
    return inputs
