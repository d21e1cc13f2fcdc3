from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.fusion import Limits, Reason
from tvm_fusionx.fusion.candidate import Candidate
from tvm_fusionx.fusion.geometry import Rows
from tvm_fusionx.fusion.legality import (
    body_size,
    keeps_rows_of_product,
    why_not_fusible,
)
from tvm_fusionx.fusion.partition import Partition

x, y = var("x", 64, 512), var("y", 64, 512)
image, kernel = var("image", 1, 16, 32, 32), const(16, 16, 3, 3)


def _candidate(expr: relay.Expr) -> tuple[Partition, Candidate]:
    """Return the last call of `expr`, and all others merged as far as they go, as a candidate."""
    partition = Partition(graph(expr))
    first = partition.units[0]
    for unit in partition.units[1:-1]:
        first = partition.merge(first, unit)
    return partition, Candidate(partition, first, partition.units[-1])


def _reason(expr: relay.Expr, limits: Limits | None = None) -> Reason | None:
    refusal = why_not_fusible(*_candidate(expr), limits or Limits())
    return refusal.reason if refusal else None


def _layer_norm(value: relay.Expr) -> relay.Expr:
    centred = value - relay.mean(value, axis=-1, keepdims=True)
    return centred / relay.sqrt(relay.mean(centred * centred, axis=-1, keepdims=True))


def _squared(value: relay.Expr) -> relay.Expr:
    return value * value


def _cut(columns: int) -> relay.Expr:
    return relay.strided_slice(relay.nn.dense(x, const(512, 512)), [0, 0], [64, columns])


def _cut_channels(axis: int) -> relay.Expr:
    blocked = relay.nn.contrib_conv2d_nchwc(
        var("blocked", 1, 2, 32, 32, 16),
        const(4, 2, 1, 1, 16, 16),
        channels=64,
        kernel_size=(1, 1),
        data_layout="NCHW16c",
        kernel_layout="OIHW16i16o",
        out_layout="NCHW16c",
    )
    image = relay.layout_transform(blocked, "NCHW16c", "NCHW")
    return relay.strided_slice(image, [0], [27], axes=[axis])


LEGAL: dict[str, Callable[[], relay.Expr]] = {
    "elementwise": lambda: relay.exp(relay.tanh(x)),
    "reshapes alone": lambda: relay.reshape(relay.reshape(x, (-1,)), (128, 256)),
    "moved data": lambda: relay.transpose(relay.exp(x)),
    "epilogue of a product": lambda: relay.nn.relu(relay.nn.dense(x, const(512, 512)) + const(512)),
    "epilogue of a convolution": lambda: relay.nn.relu(relay.nn.conv2d(image, kernel)),
    "reshaped product": lambda: relay.reshape(relay.nn.dense(x, const(512, 512)), (64, 8, 64)),
    "product, then its rows": lambda: relay.nn.softmax(relay.nn.dense(x, const(512, 512))),
    "reductions of one set of rows": lambda: _layer_norm(x),
    "product, then a layer norm": lambda: _layer_norm(relay.nn.dense(x, const(512, 512))),
    "padded columns cut off a product": lambda: _cut(500) + const(500),
    "padded channels cut off a convolution": lambda: relay.transpose(
        _cut_channels(1) + const(27, 1, 1), (0, 2, 3, 1)
    ),
    "rows of cut columns": lambda: relay.nn.softmax(_cut(500)),
    "work before a reduction": lambda: relay.sum(relay.exp(x), axis=0),
    "small products in a row": lambda: relay.nn.dense(
        relay.nn.dense(var("s", 4, 8), const(8, 8)), const(8, 8)
    ),
}


@pytest.mark.parametrize("kind", LEGAL)
def test_one_loop_nest(kind: str) -> None:
    assert _reason(LEGAL[kind]()) is None


ILLEGAL: dict[str, tuple[Callable[[], relay.Expr], Reason]] = {
    "opaque": (lambda: relay.exp(relay.argsort(x, dtype="float32")), Reason.OPAQUE_OPERATOR),
    "products": (
        lambda: relay.nn.dense(relay.nn.dense(x, const(512, 512)), const(512, 512)),
        Reason.SECOND_CONTRACTION,
    ),
    "product below a reduction": (
        lambda: relay.nn.dense(relay.nn.softmax(x), const(512, 512)),
        Reason.SECOND_CONTRACTION,
    ),
    "other rows": (lambda: relay.sum(relay.nn.softmax(x), axis=0), Reason.ROWS_DIFFER),
    "rows of part of a product": (
        lambda: relay.nn.softmax(
            relay.reshape(relay.nn.dense(x, const(512, 512)), (64, 8, 64)), axis=2
        ),
        Reason.ROWS_DIFFER,
    ),
    "torn rows": (
        lambda: relay.strided_slice(relay.nn.softmax(x), [0, 0], [64, 256]),
        Reason.ROW_IS_TORN,
    ),
    "other domain": (
        lambda: relay.nn.dense(x, const(512, 512)) + var("z", 4, 64, 512),
        Reason.DOMAIN_CHANGES,
    ),
    "two readers": (
        lambda: relay.Tuple([relay.sum(relay.tanh(x), axis=1), relay.tanh(x)]),
        Reason.TOO_MANY_OUTPUTS,
    ),
}


@pytest.mark.parametrize("kind", ILLEGAL)
def test_no_one_loop_nest(kind: str) -> None:
    make, reason = ILLEGAL[kind]
    expr = make()
    if isinstance(expr, relay.Tuple):
        partition = Partition(graph(expr))
        first, second = partition.units
        refusal = why_not_fusible(partition, Candidate(partition, first, second), Limits())
        assert refusal is not None
        assert refusal.reason is reason
    else:
        assert _reason(expr) is reason


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(operators=2), Reason.TOO_MANY_OPERATORS),
        (Limits(arguments=3), Reason.TOO_MANY_ARGUMENTS),
        (Limits(operators=3, arguments=4), None),
    ],
)
def test_limits_hold_to_the_last_one(limits: Limits, reason: Reason | None) -> None:
    assert _reason(relay.exp(x + y + const(512)), limits) is reason


BODIES: dict[str, tuple[Callable[[], relay.Expr], int]] = {
    "chain": (lambda: relay.exp(relay.tanh(relay.abs(x))), 3),
    "value read twice": (lambda: relay.abs(x) * relay.abs(x), 3),
    "square of a square": (lambda: _squared(_squared(relay.abs(x))), 7),
    "result kept in a buffer": (lambda: _squared(_squared(relay.nn.softmax(x))), 7),
    "work before what is kept": (lambda: relay.exp(relay.nn.softmax(_squared(_squared(x)))), 4),
    "padding writes its source twice": (
        lambda: relay.nn.pad(relay.exp(relay.abs(x)), ((1, 0), (0, 0))),
        5,
    ),
}


@pytest.mark.parametrize("kind", BODIES)
def test_a_body_counts_operators_wherever_they_are_written(kind: str) -> None:
    make, expected = BODIES[kind]
    assert body_size(graph(make()).calls()) == expected


def test_a_limit_of_products_may_be_raised() -> None:
    expr = relay.nn.dense(relay.nn.dense(x, const(512, 512)), const(512, 512))
    assert _reason(expr, Limits(contractions=2)) is Reason.ROWS_DIFFER


@pytest.mark.parametrize(
    ("rows", "keeps"), [(Rows(64, 512), True), (Rows(128, 256), False), (Rows(32, 512), False)]
)
def test_rows_of_a_product_are_its_last_axis(rows: Rows, keeps: bool) -> None:
    (node,) = graph(relay.nn.dense(x, const(512, 512))).calls()
    assert keeps_rows_of_product(node, rows) is keeps


def test_tiles_hold_no_whole_rows_on_some_targets() -> None:
    expr = relay.nn.softmax(relay.nn.dense(x, const(512, 512)))
    assert _reason(expr, Limits()) is None
    assert _reason(expr, Limits(rows_after_contraction=False)) is Reason.ROWS_DIFFER


def test_small_chains_are_one_kernel_only_where_loop_nests_may_follow_each_other() -> None:
    small = relay.nn.dense(relay.nn.dense(var("s", 1, 8), const(4, 8)), const(8, 4))
    assert _reason(small, Limits()) is None
    assert _reason(small, Limits(small_chains=False)) is Reason.SECOND_CONTRACTION
