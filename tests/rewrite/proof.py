"""Whether a rule does what it says: one function, so that a planted fault must not get past it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np
import tvm

from tests.relay_modules import EXACT, REASSOCIATING
from tests.rewrite.rule_examples import build, draw, evaluate, is_accepted, versions
from tvm_fusionx.ecg import Graph
from tvm_fusionx.rewrite import NumericClass, Rule
from tvm_fusionx.rewrite.cost import cost_of
from tvm_fusionx.rewrite.engine import apply_rules
from tvm_fusionx.rewrite.rule import Domain, Example, Kind
from tvm_fusionx.rewrite.term import LITERAL, VARIABLE, Term

# Rounding of a half is 2^-11; the longest sums of the examples have some dozens of terms.
REASSOCIATING_HALF = 1e-2
FLOATS = ("float32", "float16")
INTEGERS = ("int8", "int32", "int64")

# Signs, zeros, and numbers of which no product in the examples overflows or loses bits.
MODERATE = {
    "float32": (0.0, -0.0, 1.0, -1.0, 50.0, -50.0, 1e-3, -1e-3),
    "float16": (0.0, -0.0, 1.0, -1.0, 8.0, -8.0, 0.125, -0.125),
}
# Every kind of number there is.
ALL_KINDS = (0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, -1e-38, 1.0, -1.0)


class BrokenRuleError(AssertionError):
    """A rule does not do what it says."""


def prove(rule: Rule, *, draws: int = 3) -> int:
    """Check a rule on its own examples, on varied ones, and on special values.

    Parameters
    ----------
    rule
        A rule with samples.
    draws
        How many random variations of shapes to try for each version of the left side.

    Returns
    -------
    proved
        On how many graphs it was applied.

    Raises
    ------
    BrokenRuleError
        It is not applied to its own left side, raises the cost, changes a type, is not done after
        one go, or computes something else.
    """
    proved = 0
    for sides in versions(rule):
        dtypes = [item for item in _dtypes(rule) if _holds(rule, sides, rule.examples, item)]
        if not dtypes:
            raise BrokenRuleError(
                f"{rule.name} is not applied to {sides} in any of {_dtypes(rule)}"
            )
        if rule.domain is not Domain.INTEGER and "float32" not in dtypes:
            raise BrokenRuleError(f"{rule.name} is not applied to {sides} in float32")
        proved += len(dtypes)
        generator = np.random.default_rng(len(rule.name))
        for number in range(draws):
            examples = varied(rule.examples, generator)
            proved += _holds(rule, sides, examples, dtypes[number % len(dtypes)])
    return proved


def _dtypes(rule: Rule) -> tuple[str, ...]:
    return {
        Domain.FLOAT: FLOATS,
        Domain.INTEGER: INTEGERS,
        Domain.ANY: (*FLOATS, *INTEGERS),
    }[rule.domain]


def varied(examples: Mapping[str, Example], generator: np.random.Generator) -> dict[str, Example]:
    """Return examples of other extents, some of them broadcast."""
    extents = {1: 1}
    out = {}
    for name, example in examples.items():
        shape = []
        for extent in example.shape:
            extents.setdefault(extent, int(generator.integers(2, 7)))
            is_broadcast = len(examples) > 1 and generator.random() < 0.15  # one in seven
            shape.append(1 if is_broadcast else extents[extent])
        out[name] = Example(tuple(shape), example.kind, example.number)
    return out


def _holds(rule: Rule, sides: Sequence[Term], examples: Mapping[str, Example], dtype: str) -> bool:
    """Tell whether the rule is applied; when it is, it must do what it says."""
    try:
        before, after = (build(rule, sides, examples, dtype) for _ in range(2))
    except tvm.TVMError:
        return False  # the operators do not take these types
    if any(value.type.elements == 0 for value in before.outputs):
        return False
    try:
        results = evaluate(before, draw(before))
    except ValueError:
        return False  # Relay does not check every extent
    if examples is not rule.examples and not all(np.isfinite(item).any() for item in results):
        return False
    if not apply_rules(after, [rule]):
        return False
    if cost_of(after.calls()) >= cost_of(before.calls()):
        raise BrokenRuleError(f"{rule.name} costs {cost_of(after.calls())}")
    if is_accepted_again(after, rule):
        raise BrokenRuleError(f"{rule.name} matches its own result")
    for first, second in zip(after.outputs, before.outputs, strict=True):
        if first.type != second.type:
            raise BrokenRuleError(f"{rule.name} makes {first.type} of {second.type}")
    compare(rule, before, after, draw(before))
    if "float" in dtype:
        is_exact = rule.numeric_class is NumericClass.EXACT
        kinds = ALL_KINDS if is_exact else MODERATE[dtype]
        compare(rule, before, after, _with(draw(before), kinds), is_special=True)
        _keep_nan(rule, before, after)
    return True


def _keep_nan(rule: Rule, before: Graph, after: Graph) -> None:
    """Check that a NaN in an operand reaches what it reached: no rule may lose one."""
    inputs = draw(before)
    for name, array in inputs.items():
        if array.dtype.kind != "f":
            continue
        spoilt = array.copy()
        spoilt.flat[0] = np.nan
        given = {**inputs, name: spoilt}
        with np.errstate(invalid="ignore"):
            results = evaluate(before, given), evaluate(after, given)
        for expected, found in zip(*results, strict=True):
            is_lost = np.isnan(expected) & ~np.isnan(found)
            if is_lost.any() or (expected.dtype.kind != "f" and (expected != found).any()):
                raise BrokenRuleError(f"{rule.name} loses a NaN in {name}")


def is_accepted_again(graph: Graph, rule: Rule) -> bool:
    """Tell whether the rule would be applied once more."""
    return bool(apply_rules(graph, [rule]))


def _with(inputs: Mapping[str, np.ndarray], kinds: Sequence[float]) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    out = {}
    for name, array in inputs.items():
        if array.dtype == bool:
            out[name] = array
            continue
        with np.errstate(all="ignore"):
            special = generator.choice(kinds, array.shape).astype(array.dtype)
        out[name] = np.where(generator.random(array.shape) < 0.5, special, array)
    return out


def compare(
    rule: Rule,
    before: Graph,
    after: Graph,
    inputs: Mapping[str, np.ndarray],
    *,
    is_special: bool = False,
) -> None:
    """Compare what two graphs compute, as closely as the rule's class says.

    Raises
    ------
    BrokenRuleError
        They differ.
    """
    for expected, found in zip(evaluate(before, inputs), evaluate(after, inputs), strict=True):
        if not np.issubdtype(expected.dtype, np.floating):
            if not np.array_equal(expected, found):
                raise BrokenRuleError(f"{rule.name}: {found} instead of {expected}")
            continue
        if rule.numeric_class is NumericClass.EXACT:
            tolerance = EXACT
            where = np.isfinite(expected)
            if not np.array_equal(expected[~where], found[~where], equal_nan=True):
                raise BrokenRuleError(f"{rule.name} changes infinities or NaN")
        else:
            tolerance = REASSOCIATING if expected.dtype == np.float32 else REASSOCIATING_HALF
            where = np.isfinite(expected) & (np.isfinite(found) | (not is_special))
        if not is_special and not where.any():
            raise BrokenRuleError(f"{rule.name}: the example has no finite result")
        differences = np.abs(expected[where].astype("float64") - found[where])
        scale = np.max(np.abs(expected[where].astype("float64")), initial=0.0)
        if not bool(np.all(differences <= tolerance * scale)):
            worst = float(np.max(differences))
            raise BrokenRuleError(f"{rule.name} is off by {worst:.2g} of {scale:.2g}")


class Outcome(Enum):
    """What becomes of a rule on a graph."""

    APPLIED = "applied"
    REFUSED = "refused"
    BROKEN = "it raises an error"


def outcome(rule: Rule, graph: Graph) -> Outcome:
    """Return what becomes of a rule on a graph, whatever it gains."""
    try:
        return Outcome.APPLIED if is_accepted(graph, rule) else Outcome.REFUSED
    except (tvm.TVMError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        return Outcome.BROKEN


# Attributes under which conditions on attributes do not hold.
OTHER_ATTRIBUTES: tuple[dict[str, dict[str, Any]], ...] = (
    {"clip": {"a_min": 3.0, "a_max": 4.0}},
    {"clip": {"a_min": -4.0, "a_max": -3.0}},
    {"concatenate": {"axis": 0}},
    {"concatenate": {"axis": 1}},
    {"concatenate": {"axis": 2}},
    {"mean": {"axis": [1], "keepdims": True}},
    {"nn.avg_pool2d": {"pool_size": [3, 3], "padding": [1, 1], "count_include_pad": True}},
    {"nn.avg_pool2d": {"pool_size": [3, 3], "padding": [1, 1]}},
    {"nn.conv2d": {"padding": [1, 1]}},
    {"nn.conv2d": {"strides": [2, 2]}},
    {"nn.max_pool2d": {"pool_size": [1, 1], "padding": [1, 1]}},
    {"nn.softmax": {"axis": 0}},
    {"sum": {"axis": [1], "keepdims": False}},
    {"sum": {"axis": [0, 1], "keepdims": True}},
    {"nn.upsampling": {"scale_h": 2, "scale_w": 2, "method": "bilinear"}},
)


def perturbed(rule: Rule) -> Iterator[Graph]:
    """Yield graphs that differ from the rule's example in a variable or in attributes."""
    dtype = "int32" if rule.domain is Domain.INTEGER else "float32"
    both_ends = versions(rule)[:: max(1, len(versions(rule)) - 1)]
    for attributes in ({}, *OTHER_ATTRIBUTES):
        for sides in both_ends:
            if attributes and not any(name in str(sides) for name in attributes):
                continue
            other = replace(rule, attributes={**rule.attributes, **attributes})
            for examples in [rule.examples, *_perturbed_examples(rule.examples)]:
                with contextlib.suppress(tvm.TVMError):
                    yield build(other, sides, examples, dtype)
    for sides in both_ends[:1]:
        for inner in (term for side in sides for term in _inner_terms(side)):
            with contextlib.suppress(tvm.TVMError):
                yield build(rule, (*sides, inner), dtype=dtype)
    for name, example in rule.examples.items():
        kinds = {**rule.examples, name: replace(example, kind=Kind.PRODUCT)}
        if not example.shape:
            continue
        with contextlib.suppress(tvm.TVMError):
            yield build(rule, versions(rule)[0], kinds, dtype)


def _inner_terms(term: Term) -> Iterator[Term]:
    """Yield the calls below a term: returned too, they have a second reader."""
    for operand in term.operands:
        if operand.op not in (VARIABLE, LITERAL):
            yield operand
        yield from _inner_terms(operand)


def _perturbed_examples(examples: Mapping[str, Example]) -> list[dict[str, Example]]:
    out = []
    for name, example in examples.items():
        rank, last = len(example.shape), example.shape[-1:]
        largest = max((item.shape for item in examples.values()), key=len)
        others = [
            Example(example.shape),
            Example(example.shape, Kind.NON_NEGATIVE),
            Example(example.shape, Kind.POSITIVE),
            Example(example.shape, Kind.CONSTANT),
            *(Example(example.shape, Kind.CONSTANT, number) for number in (-2.0, 0.0, 0.5, 64.0)),
            Example((1,) * rank, example.kind, example.number),
            Example((*example.shape[:-1], 1), example.kind) if rank else example,
            Example((*example.shape[:-1], *(extent + 1 for extent in last)), example.kind),
            Example((1, *example.shape), example.kind),
            Example((*example.shape[:1], *example.shape), example.kind),
            Example(last, example.kind),
            Example((1,) * len(largest), example.kind, example.number),
            Example(largest, example.kind, example.number),
            Example(largest[-1:], example.kind, example.number),
            Example((*largest[:-1], 1), example.kind, example.number),
        ]
        out += [{**examples, name: other} for other in others if other != example]
    return out
