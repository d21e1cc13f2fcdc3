"""Products by Strassen's scheme: right numbers, an eighth fewer multiply-adds, refusals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, const, graph, module, operator_names, var
from tests.verified_kernels import assert_same_numbers
from tvm_fusionx.ecg import to_relay
from tvm_fusionx.ecg.flops import flops
from tvm_fusionx.layout import multiply_by_strassen
from tvm_fusionx.layout.strassen import (
    FEWEST_ROWS,
    RESULTS,
    SIDES,
    WEIGHTS,
    why_not_strassen,
)

ROWS, DEPTH, COLUMNS = FEWEST_ROWS, 384, 390

PRODUCTS: dict[str, Callable[[], relay.Expr]] = {
    "dense": lambda: relay.nn.dense(var("x", ROWS, DEPTH), const(COLUMNS, DEPTH)),
    "matmul": lambda: relay.nn.matmul(var("x", ROWS, DEPTH), const(DEPTH, COLUMNS)),
    "batch_matmul": lambda: relay.nn.batch_matmul(
        var("x", 2, ROWS // 2, DEPTH), const(1, COLUMNS, DEPTH)
    ),
}


def test_the_scheme_is_a_product_of_matrices() -> None:
    generator = np.random.default_rng(1)
    x, w = (generator.integers(-9, 9, 4) for _ in range(2))

    def total(terms: tuple[tuple[int, int], ...], values: list[int] | np.ndarray) -> int:
        return int(sum(sign * values[at] for at, sign in terms))

    products = [
        total(side, x) * total(weight, w) for side, weight in zip(SIDES, WEIGHTS, strict=True)
    ]
    found = [total(terms, products) for terms in RESULTS]
    assert found == [*(x.reshape(2, 2) @ w.reshape(2, 2)).ravel()]
    # The first term of a sum is not turned.
    assert all(terms[0][1] == 1 for terms in (*SIDES, *WEIGHTS, *RESULTS))


@pytest.mark.parametrize("name", PRODUCTS)
def test_seven_products_compute_the_same(name: str) -> None:
    mod = module(PRODUCTS[name]())
    held = graph(mod["main"].body)
    before = sum(map(flops, held.calls()))
    assert multiply_by_strassen(held) == {next(iter(multiply_told(mod))): None}
    products = [node for node in held.calls() if node.op == "nn.dense"]
    assert len(products) == 7
    assert sum(map(flops, products)) == before * 7 // 8
    assert_same_numbers(module(to_relay(held).body), mod, REASSOCIATING)


def multiply_told(mod: object) -> dict[str, str | None]:
    """Return what is told of a module's products."""
    return multiply_by_strassen(graph(mod["main"].body))  # type: ignore[index]


def test_products_of_quarters_are_left_as_they_are() -> None:
    held = graph(PRODUCTS["dense"]())
    multiply_by_strassen(held)
    again = multiply_by_strassen(held)
    assert len(again) == 7
    assert all(reason is not None for reason in again.values())


REFUSED: dict[str, Callable[[], relay.Expr]] = {
    "no matrix product": lambda: relay.exp(var("x", ROWS, DEPTH)),
    "not constant": lambda: relay.nn.dense(var("x", ROWS, DEPTH), var("w", COLUMNS, DEPTH)),
    "it is of float64": lambda: relay.nn.dense(
        var("x", ROWS, DEPTH, dtype="float64"), const(COLUMNS, DEPTH, dtype="float64")
    ),
    "383 cannot be halved": lambda: relay.nn.dense(var("x", ROWS, 383), const(COLUMNS, 383)),
    "of 62 rows": lambda: relay.nn.dense(var("x", 62, DEPTH), const(COLUMNS, DEPTH)),
    "too small to gain": lambda: relay.nn.dense(var("x", ROWS, 64), const(COLUMNS, 64)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_gains_nothing_stays(reason: str) -> None:
    held = graph(REFUSED[reason]())
    (node,) = held.calls()
    assert reason in str(why_not_strassen(node))
    told = multiply_by_strassen(held)
    assert all(reason in str(each) for each in told.values())
    assert operator_names(to_relay(held)) == [node.op]
