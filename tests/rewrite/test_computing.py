from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.ecg import Value
from tvm_fusionx.rewrite.computing import count_for, reduced
from tvm_fusionx.rewrite.matching import find_matches, with_groups_joined
from tvm_fusionx.rewrite.term import Term, op, variable
from tvm_fusionx.rewrite.writing import Writing, write

x, s = variable("x"), variable("s")
cube = var("cube", 2, 3, 4)


def _written(term: Term, expr: relay.Expr) -> Value:
    found = graph(expr)
    match = next(find_matches(found, op.sum(x * s), found.outputs[0]))
    values = with_groups_joined(found, match, "")
    return write(Writing(found, match, values, "float32"), term)


@pytest.mark.parametrize(
    ("shape", "keepdims", "expected"),
    [
        ((2, 1, 4), False, (2, 4)),
        ((2, 1, 4), True, (2, 1, 4)),
        ((1, 4), False, (1, 4)),
        ((), False, ()),
    ],
)
def test_a_value_loses_the_reduced_axes(
    shape: tuple[int, ...], keepdims: bool, expected: tuple[int, ...]
) -> None:
    expr = relay.sum(cube * var("s", *shape), axis=1, keepdims=keepdims)
    assert _written(reduced(s), expr).shape == expected


def test_elements_are_counted() -> None:
    value = _written(count_for(s), relay.sum(cube * var("s", 2, 1, 1), axis=[1, 2]))
    assert float(value.array) == 12
