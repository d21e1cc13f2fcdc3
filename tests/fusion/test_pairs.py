from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relay

from tests.depthwise_pairs import bias, blocked_image, depthwise, hard_swish, pointwise
from tests.relay_modules import graph, var
from tvm_fusionx.fusion import Limits, PlannerOptions, Reason, plan
from tvm_fusionx.fusion.pairs import PairLimits

LIMITS = PairLimits(cores=2, buffer_bytes=1 << 18)
CHANNELS, ROWS = 32, 32

image = blocked_image(CHANNELS, ROWS, ROWS)


def _planned(expr: relay.Expr, limits: PairLimits | None = LIMITS) -> list[tuple[str, ...]]:
    made = plan(graph(expr), PlannerOptions(Limits(pairs=limits)))
    return [block.ops for block in made.blocks]


def _refusal(expr: relay.Expr, limits: PairLimits | None = LIMITS) -> tuple[Reason | None, str]:
    """Return why the edge into the last convolution is cut."""
    made = plan(graph(expr), PlannerOptions(Limits(pairs=limits)))
    (edge,) = (edge for edge in made.edges if edge.consumer.startswith("nn.contrib_conv2d"))
    return edge.reason, edge.detail


def _first() -> relay.Expr:
    return relay.nn.relu(depthwise(image, CHANNELS) + bias(CHANNELS))


def _second(data: relay.Expr) -> relay.Expr:
    return pointwise(data, CHANNELS, CHANNELS)


PAIRS: dict[str, Callable[[], relay.Expr]] = {
    "alone": lambda: _second(depthwise(image, CHANNELS)),
    "with activations": lambda: relay.nn.relu(_second(_first()) + bias(CHANNELS)),
    "with an activation of several reads": lambda: _second(hard_swish(_first())),
    "with a residual": lambda: _second(_first()) + image,
    "with a gate": lambda: _second(_first() * var("gate", 1, CHANNELS // 8, 1, 1, 8)),
    "of halves between": lambda: _second(relay.cast(relay.cast(_first(), "float16"), "float32")),
    "with its layout changed": lambda: relay.layout_transform(_second(_first()), "NCHW8c", "NCHW"),
    "of stride 2": lambda: _second(depthwise(image, CHANNELS, stride=2)),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_a_pair_is_one_block(kind: str) -> None:
    assert len(_planned(PAIRS[kind]())) == 1


def test_a_pair_is_two_blocks_where_the_target_has_no_kernel_for_it() -> None:
    assert len(_planned(_second(_first()), None)) == 2
    assert _refusal(_second(_first()), None)[1].endswith("the target has no kernel for pairs")


def _double() -> relay.Expr:
    return relay.cast(relay.cast(depthwise(image, CHANNELS), "float64"), "float32")


NO_PAIRS: dict[str, tuple[Callable[[], relay.Expr], str]] = {
    "wide window": (
        lambda: pointwise(_first(), CHANNELS, CHANNELS, kernel=3),
        "reads more than one pixel",
    ),
    "steps": (
        lambda: pointwise(_first(), CHANNELS, CHANNELS, stride=2),
        "reads more than one pixel",
    ),
    "double precision between": (lambda: _second(_double()), "sums are not all float32"),
    "work before": (
        lambda: _second(_first() * relay.exp(var("gate", 1, 4, ROWS, ROWS, 8))),
        "exp is computed before",
    ),
    "moved between": (
        lambda: _second(relay.reverse(_first(), axis=2)),
        "between them is not elementwise",
    ),
}


@pytest.mark.parametrize("kind", NO_PAIRS)
def test_no_pair(kind: str) -> None:
    make, detail = NO_PAIRS[kind]
    reason, found = _refusal(make())
    assert reason is Reason.SECOND_CONTRACTION
    assert detail in found


def test_a_result_read_after_the_second_as_well_is_no_pair() -> None:
    first = _first()
    blocks = _planned(_second(first) + first)
    assert not any(sum("conv2d" in op for op in ops) > 1 for ops in blocks)


def test_rows_must_stay_in_cache() -> None:
    limits = PairLimits(cores=2, buffer_bytes=CHANNELS * ROWS * 4 - 1)
    reason, detail = _refusal(_second(_first()), limits)
    assert reason is Reason.PAIR_DOES_NOT_PAY
    assert "at most 4095 stay" in detail


def test_rows_must_be_shared_evenly() -> None:
    odd = relay.nn.relu(depthwise(blocked_image(512, 7, 7), 512))
    reason, detail = _refusal(pointwise(odd, 512, 64))
    assert reason is Reason.PAIR_DOES_NOT_PAY
    assert detail == "7 rows on 2 cores leave 14% of the time idle"
