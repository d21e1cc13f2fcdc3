"""Rules over integers and truth values, proved for every value there is: both sides as bit-vectors.

Elements are eight bits wide, wrapping around as a machine's do; z3 looks for values on which the
two sides differ. Rules with operators that have no such form here are left to numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest

from tests.rewrite.rule_examples import evaluate, replaced
from tests.rewrite.test_symbolic import STRUCTURAL
from tvm_fusionx.ecg import Graph
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.ecg.numpy_operators import NUMPY_OPERATORS, NotInNumpyError, reduced_axes
from tvm_fusionx.rewrite import ALL_RULES, Rule
from tvm_fusionx.rewrite.rule import Domain, declared

z3 = pytest.importorskip("z3", reason="z3 is not installed: pip install z3-solver")

DTYPE, BITS = "int8", 8
MILLISECONDS = 5_000
# Of the declared rules that hold for integers.
FEWEST_PROVED = 60


def _smaller(x: Any, y: Any) -> Any:
    return z3.If(x < y, x, y)


def _larger(x: Any, y: Any) -> Any:
    return z3.If(x > y, x, y)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": lambda x: z3.If(x < 0, -x, x),
    "add": lambda x, y: x + y,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_not": lambda x: ~x,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "equal": lambda x, y: x == y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
    "left_shift": lambda x, y: x << y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "logical_and": lambda x, y: z3.And(x, y),
    "logical_not": lambda x: z3.Not(x),
    "logical_or": lambda x, y: z3.Or(x, y),
    "maximum": _larger,
    "minimum": _smaller,
    "multiply": lambda x, y: x * y,
    "negative": lambda x: -x,
    "nn.relu": lambda x: z3.If(x < 0, z3.BitVecVal(0, BITS), x),
    "not_equal": lambda x, y: x != y,
    "right_shift": lambda x, y: x >> y,
    "sign": lambda x: z3.If(x > 0, z3.BitVecVal(1, BITS), z3.If(x < 0, z3.BitVecVal(-1, BITS), x)),
    "subtract": lambda x, y: x - y,
    "where": lambda c, x, y: z3.If(c, x, y),
}
FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "all": lambda x, y: z3.And(x, y),
    "any": lambda x, y: z3.Or(x, y),
    "max": _larger,
    "min": _smaller,
    "prod": lambda x, y: x * y,
    "sum": lambda x, y: x + y,
}


def _symbolic(node: Node, arrays: list[np.ndarray]) -> list[np.ndarray]:
    arrays = [_exact(array) for array in arrays]
    shape = node.outputs[0].shape
    if node.op == "cast" and node.operands[0].dtype == node.outputs[0].dtype:
        result = arrays[0]
    elif node.op in FUNCTIONS:
        result = np.frompyfunc(FUNCTIONS[node.op], len(arrays), 1)(*arrays)
    elif node.op in FOLDS:
        result = _folded(node, arrays[0])
    elif node.op in STRUCTURAL:
        result = NUMPY_OPERATORS[node.op](node, arrays)
    else:
        raise NotInNumpyError(node.op)
    return [np.asarray(result, dtype=object).reshape(shape)]


def _exact(array: np.ndarray) -> np.ndarray:
    if array.dtype == object:
        return array
    is_truth = array.dtype == bool
    made = np.empty(array.shape, dtype=object)
    for index in np.ndindex(array.shape):
        item = array[index]
        made[index] = z3.BoolVal(bool(item)) if is_truth else z3.BitVecVal(int(item), BITS)
    return made


def _folded(node: Node, array: np.ndarray) -> np.ndarray:
    axes = reduced_axes(node)
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    rows = np.transpose(array, [*kept, *axes]).reshape(*(array.shape[axis] for axis in kept), -1)
    out = np.empty(rows.shape[:-1], dtype=object)
    for index in np.ndindex(out.shape):
        out[index] = reduce(FOLDS[node.op], rows[index])
    return out


def _symbols(graph: Graph) -> dict[str, np.ndarray]:
    out = {}
    for node in graph.inputs:
        array = np.empty(node.outputs[0].shape, dtype=object)
        for number, index in enumerate(np.ndindex(array.shape)):
            name = f"{node.name}{number}"
            is_truth = node.outputs[0].dtype == "bool"
            array[index] = z3.Bool(name) if is_truth else z3.BitVec(name, BITS)
        out[node.name] = array
    return out


def is_proved(rule: Rule) -> bool | None:
    """Tell whether both sides are equal for all values; None where that cannot be asked."""
    for before, after in replaced(rule, DTYPE):
        symbols = _symbols(before)
        try:
            first, second = (
                _exact(evaluate(graph, symbols, _symbolic)[0]).reshape(-1)
                for graph in (before, after)
            )
        except NotInNumpyError:
            return None
        except ValueError:
            continue  # the attributes are for the whole example
        solver = z3.Solver()
        solver.set("timeout", MILLISECONDS)
        pairs = zip(first, second, strict=True)
        solver.add(z3.Or([x != y for x, y in pairs]))
        answer = solver.check()
        return None if answer == z3.unknown else answer == z3.unsat
    return None


WHOLE = [rule for rule in ALL_RULES if rule.lhs is not None and rule.domain is not Domain.FLOAT]


def test_no_rule_is_disproved_and_most_are_proved() -> None:
    found = {rule.name: is_proved(rule) for rule in WHOLE}
    assert [name for name, proved in found.items() if proved is False] == []
    assert sum(bool(proved) for proved in found.values()) >= FEWEST_PROVED


@pytest.mark.parametrize(
    "name", ["factor_common_multiplier", "shift_after_sum", "merge_left_shifts"]
)
def test_a_planted_fault_is_disproved(name: str) -> None:
    (rule,) = [rule for rule in WHOLE if rule.name == name]
    assert rule.rhs is not None
    assert is_proved(rule)
    assert is_proved(declared(replace(rule, rhs=-rule.rhs))) is False
