from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relay

from tests.fusion.planned import blocks
from tests.relay_modules import graph, var
from tests.schedules.winograd_convolution import direct, filtered
from tvm_fusionx.fusion import Reason, plan

Make = Callable[[relay.Expr], relay.Expr]

# Large enough that its calls do not just follow each other in a kernel.
CHANNELS = 64
SHAPE, PADDING = (1, CHANNELS, 32, 33), (1, 1, 1, 1)
bias, image = var("b", 1, CHANNELS // 8, 1, 1, 8), var("r", 1, CHANNELS // 8, 32, 33, 8)


def _convolution(tile: int = 4) -> relay.Expr:
    return filtered(SHAPE, CHANNELS, PADDING, tile)


def _pool(kind: str = "max", **attrs: object) -> Make:
    settings: dict[str, object] = {"pool_size": (2, 2), "strides": (2, 2), "layout": "NCHW8c"}
    return lambda y: getattr(relay.nn, f"{kind}_pool2d")(y, **settings | attrs)


JOINED: dict[str, Make] = {
    "alone": _pool(),
    "an average": _pool("avg"),
    "after an activation": lambda y: _pool()(relay.nn.relu(y + bias)),
    "after a residual": lambda y: _pool()(y + image),
    "before an activation": lambda y: relay.nn.relu(_pool()(y + bias)),
    "its layout changed": lambda y: relay.layout_transform(_pool()(y), "NCHW8c", "NCHW"),
    "windows of a row": _pool(pool_size=(1, 4), strides=(1, 4)),
}


@pytest.mark.parametrize("kind", JOINED)
def test_a_pool_joins_the_convolution_whose_tiles_it_reads(kind: str) -> None:
    assert len(blocks(JOINED[kind](_convolution()))) == 1


APART: dict[str, tuple[Make, str]] = {
    "overlapping": (_pool(pool_size=(3, 3)), "overlap"),
    "padded": (_pool(padding=(1, 1)), "leave the image"),
    "rounded up": (_pool(ceil_mode=True), "last windows leave the image"),
    "across tiles": (_pool(pool_size=(3, 3), strides=(3, 3)), "cross tiles"),
    "in another layout": (
        lambda y: _pool(layout="NCHW")(relay.layout_transform(y, "NCHW8c", "NCHW")),
        "the layout changes",
    ),
    "what is moved": (lambda y: _pool()(relay.reverse(y, 2)), "is not elementwise"),
    "with holes": (_pool(dilation=(2, 2)), "have holes"),
}


def _refusals(expr: relay.Expr) -> list[str]:
    edges = plan(graph(expr)).edges
    return [edge.detail for edge in edges if edge.reason is Reason.ROWS_DIFFER]


@pytest.mark.parametrize("kind", APART)
def test_a_pool_stays_apart(kind: str) -> None:
    make, reason = APART[kind]
    assert any(reason in detail for detail in _refusals(make(_convolution())))


def test_windows_do_not_cross_small_tiles() -> None:
    four = _pool(pool_size=(4, 4), strides=(4, 4))
    assert len(blocks(four(_convolution(4)))) == 1
    assert "windows of (4, 4) cross tiles of 2" in _refusals(four(_convolution(2)))[0]


def test_a_pool_behind_a_direct_convolution_stays_apart() -> None:
    assert _refusals(_pool()(direct(SHAPE, CHANNELS, PADDING)))


def test_a_result_that_others_read_is_stored_before_its_pool() -> None:
    y = relay.nn.relu(_convolution())
    made = plan(graph(relay.Tuple([_pool()(y), relay.negative(y)])))
    assert made.kernels > 1


def test_two_pools_do_not_read_one_tile() -> None:
    made = plan(graph(_pool()(_pool()(_convolution()))))
    assert made.kernels == 2
