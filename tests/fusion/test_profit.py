from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.fusion import Reason
from tvm_fusionx.fusion.candidate import Candidate
from tvm_fusionx.fusion.partition import Partition
from tvm_fusionx.fusion.profit import CHEAP_OPERATORS, why_not_profitable

x, row, column = var("x", 64, 512), var("row", 1, 512), var("column", 64, 1)
image, kernel = var("image", 1, 16, 32, 32), const(16, 16, 3, 3)


def _reason(expr: relay.Expr) -> Reason | None:
    """Judge all calls but the last as producer, and the last as consumer."""
    partition = Partition(graph(expr))
    first = partition.units[0]
    for unit in partition.units[1:-1]:
        first = partition.merge(first, unit)
    refusal = why_not_profitable(Candidate(partition, first, partition.units[-1]))
    return refusal.reason if refusal else None


def _chain(value: relay.Expr, length: int) -> relay.Expr:
    for number in range(length):
        value = relay.negative(value) if number % 2 else relay.nn.relu(value)
    return value


def _heads() -> relay.Expr:
    """Return a product with weights that reads a batched product's matrices row by row."""
    batched = relay.nn.batch_matmul(var("q", 8, 128, 64), var("k", 8, 64, 64))
    moved = relay.transpose(relay.reshape(batched, (1, 8, 128, 64)), [0, 2, 1, 3])
    return relay.nn.dense(relay.reshape(moved, (128, 512)), const(512, 512))


volume = var("volume", 1, 16, 8, 16, 16)

PROFITABLE: dict[str, Callable[[], relay.Expr]] = {
    "elementwise": lambda: relay.exp(relay.tanh(x)),
    "dear work before a reduction": lambda: relay.sum(relay.exp(x), axis=1),
    "dear work before columns are reduced": lambda: relay.sum(relay.exp(x), axis=0),
    "reshape before a product": lambda: relay.nn.dense(relay.reshape(x, (512, 64)), const(8, 64)),
    "transpose before a product": lambda: relay.nn.dense(relay.transpose(x), const(512, 64)),
    "broadcast before a reduction": lambda: relay.sum(x + row, axis=1),
    "few cheap operators broadcast": lambda: x + _chain(row, CHEAP_OPERATORS),
    "one value a row broadcast": lambda: x - relay.max(x, axis=1, keepdims=True),
    "dear work on one value a row": lambda: x * relay.exp(relay.max(x, axis=1, keepdims=True)),
    "moved data broadcast": lambda: x + relay.reshape(var("flat", 512), (1, 512)),
    "axes of a pool of whole channels": lambda: relay.reshape(
        relay.nn.max_pool3d(volume, (3, 3, 3), padding=(1,) * 6), (16, 8, 16, 16)
    ),
    "small, whatever it is": lambda: relay.nn.dense(relay.exp(var("s", 4, 8)), const(8, 8)),
}


@pytest.mark.parametrize("kind", PROFITABLE)
def test_fusing_pays(kind: str) -> None:
    assert _reason(PROFITABLE[kind]()) is None


UNPROFITABLE: dict[str, tuple[Callable[[], relay.Expr], Reason]] = {
    "resized image into a pool": (
        lambda: relay.nn.max_pool2d(
            relay.image.resize2d(image, (64, 64), roi=None), pool_size=(3, 3)
        ),
        Reason.MAPPING_TYPES,
    ),
    "elementwise before a convolution": (
        lambda: relay.nn.conv2d(relay.nn.relu(image), kernel),
        Reason.RECOMPUTED,
    ),
    "transpose before a convolution": (
        lambda: relay.nn.conv2d(relay.transpose(image, [0, 1, 3, 2]), kernel),
        Reason.RECOMPUTED,
    ),
    "elementwise before a pool": (
        lambda: relay.nn.max_pool2d(relay.nn.relu(image), pool_size=(3, 3)),
        Reason.RECOMPUTED,
    ),
    "elementwise behind a pool of whole channels": (
        lambda: relay.nn.relu(relay.nn.max_pool3d(volume, (3, 3, 3), padding=(1,) * 6)),
        Reason.NO_TEMPLATE,
    ),
    "elementwise before a product": (
        lambda: relay.nn.dense(relay.nn.relu(x), const(512, 512)),
        Reason.RECOMPUTED,
    ),
    "heads beside each other before a product": (_heads, Reason.RECOMPUTED),
    "dear operator broadcast": (lambda: x + relay.tanh(row), Reason.RECOMPUTED),
    "many cheap operators broadcast": (
        lambda: x + _chain(row, CHEAP_OPERATORS + 1),
        Reason.RECOMPUTED,
    ),
    "reduction broadcast across its rows": (
        lambda: var("deep", 8, 64, 512) * relay.sum(x, axis=0),
        Reason.RECOMPUTED,
    ),
}


@pytest.mark.parametrize("kind", UNPROFITABLE)
def test_fusing_does_not_pay(kind: str) -> None:
    make, reason = UNPROFITABLE[kind]
    assert _reason(make()) is reason
