"""Rules over the reals, proved with symbols: both sides are evaluated on sympy's, then compared.

What an operator does to symbols is said here; rules with operators that have no such form (bits,
masks, rounding) are left to numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest

from tests.rewrite.rule_examples import evaluate, replaced
from tvm_fusionx.ecg import Graph
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.ecg.numpy_operators import NUMPY_OPERATORS, NotInNumpyError, reduced_axes
from tvm_fusionx.rewrite import ALL_RULES, Rule
from tvm_fusionx.rewrite.rule import Domain, Kind, declared

sympy = pytest.importorskip("sympy", reason="sympy is not installed: pip install sympy")

# Of the declared rules over the reals; the others compute in Python or choose by masks.
FEWEST_PROVED = 160
POINTS = 8

UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": sympy.Abs,
    "cos": sympy.cos,
    "cosh": sympy.cosh,
    "erf": sympy.erf,
    "exp": sympy.exp,
    "log": sympy.log,
    "negative": lambda x: -x,
    "nn.relu": lambda x: sympy.Max(x, 0),
    "rsqrt": lambda x: 1 / sympy.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + sympy.exp(-x)),
    "sign": sympy.sign,
    "sin": sympy.sin,
    "sinh": sympy.sinh,
    "sqrt": sympy.sqrt,
    "tan": sympy.tan,
    "tanh": sympy.tanh,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "divide": lambda x, y: x / y,
    "maximum": sympy.Max,
    "minimum": sympy.Min,
    "multiply": lambda x, y: x * y,
    "power": lambda x, y: x**y,
    "subtract": lambda x, y: x - y,
}
FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "max": sympy.Max,
    "mean": lambda x, y: x + y,
    "min": sympy.Min,
    "prod": lambda x, y: x * y,
    "sum": lambda x, y: x + y,
}
STRUCTURAL = (
    "broadcast_to",
    "concatenate",
    "expand_dims",
    "nn.avg_pool2d",
    "nn.batch_matmul",
    "nn.conv2d",
    "nn.dense",
    "nn.global_avg_pool2d",
    "nn.pad",
    "nn.upsampling",
    "repeat",
    "reshape",
    "squeeze",
    "strided_slice",
    "tile",
    "transpose",
)


def _symbolic(node: Node, arrays: list[np.ndarray]) -> list[np.ndarray]:
    arrays = [_exact(array) for array in arrays]
    if node.op in UNARY:
        return [np.asarray(np.frompyfunc(UNARY[node.op], 1, 1)(arrays[0]), dtype=object)]
    if node.op in BINARY:
        return [np.asarray(np.frompyfunc(BINARY[node.op], 2, 1)(*arrays), dtype=object)]
    if node.op in FOLDS:
        return [_folded(node, arrays[0])]
    if node.op not in STRUCTURAL:
        raise NotInNumpyError(node.op)
    result = NUMPY_OPERATORS[node.op](node, arrays)
    return [np.asarray(result, dtype=object).reshape(node.outputs[0].shape)]


def _exact(array: np.ndarray) -> np.ndarray:
    if array.dtype == object:
        return array
    return np.asarray(np.frompyfunc(lambda x: sympy.Rational(str(x)), 1, 1)(array), dtype=object)


def _folded(node: Node, array: np.ndarray) -> np.ndarray:
    axes = reduced_axes(node)
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    rows = np.transpose(array, [*kept, *axes]).reshape(*(array.shape[axis] for axis in kept), -1)
    out = np.empty(rows.shape[:-1], dtype=object)
    for index in np.ndindex(out.shape):
        total = reduce(FOLDS[node.op], rows[index])
        out[index] = total / rows.shape[-1] if node.op == "mean" else total
    return out.reshape(node.outputs[0].shape)


def _symbols(graph: Graph, rule: Rule) -> dict[str, np.ndarray]:
    out = {}
    for node in graph.inputs:
        kind = rule.examples[node.name].kind if node.name in rule.examples else Kind.INPUT
        is_positive = kind in (Kind.POSITIVE, Kind.NON_NEGATIVE)
        shape = node.outputs[0].shape
        array = np.empty(shape, dtype=object)
        for number, index in enumerate(np.ndindex(shape)):
            array[index] = sympy.Symbol(
                f"{node.name}{number}", real=True, positive=is_positive or None
            )
        out[node.name] = array
    return out


def is_proved(rule: Rule) -> bool | None:
    """Tell whether both sides are equal as expressions; None where that cannot be asked."""
    for before, after in replaced(rule):
        try:
            symbols = _symbols(before, rule)
            first, second = (
                evaluate(graph, symbols, _symbolic)[0].reshape(-1) for graph in (before, after)
            )
        except NotInNumpyError:
            return None
        except ValueError:
            continue  # the attributes are for the whole example
        return all(_is_zero(x - y) for x, y in list(zip(first, second, strict=True))[:: len(first)])
    return None


def _is_zero(difference: Any) -> bool:
    if difference == 0 or sympy.expand(difference) == 0:
        return True
    if sympy.simplify(difference) == 0:
        return True
    # Roots and limits have no canonical form: fifty digits at some points must do.
    generator = np.random.default_rng(7)
    for _ in range(POINTS):
        point = {
            symbol: sympy.Rational(int(generator.integers(1, 99)), 50)
            * (1 if symbol.is_positive else int(generator.choice((-1, 1))))
            for symbol in difference.free_symbols
        }
        if abs(sympy.N(difference.subs(point), 50)) > 1e-40:
            return False
    return True


REAL = [rule for rule in ALL_RULES if rule.lhs is not None and rule.domain is not Domain.INTEGER]


@pytest.mark.slow
def test_no_rule_is_disproved_and_most_are_proved() -> None:
    found = {rule.name: is_proved(rule) for rule in REAL}
    assert [name for name, proved in found.items() if proved is False] == []
    assert sum(bool(proved) for proved in found.values()) >= FEWEST_PROVED


@pytest.mark.parametrize(
    "name", ["factor_common_multiplier", "quotient_of_quotient", "factor_square"]
)
def test_a_planted_fault_is_disproved(name: str) -> None:
    (rule,) = [rule for rule in REAL if rule.name == name]
    assert rule.rhs is not None
    assert is_proved(rule)
    assert is_proved(declared(replace(rule, rhs=-rule.rhs))) is False
