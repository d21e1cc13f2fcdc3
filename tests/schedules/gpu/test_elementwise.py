from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import EXACT, var
from tests.schedules.gpu.gpu_blocks import assert_runs, describe
from tests.schedules.matching import knobs_of, why_not
from tvm_fusionx.schedules.gpu.elementwise import GPU_ELEMENTWISE


def test_a_reduction_is_refused() -> None:
    assert why_not(GPU_ELEMENTWISE, describe(relay.sum(var("x", 4)))) == "it has a reduction"


@pytest.mark.parametrize("vector", [1, 2, 4])
@pytest.mark.parametrize("items", [32, 256])
def test_every_knob_gives_the_same(vector: int, items: int) -> None:
    body = relay.nn.relu(var("x", 3, 5, 12) + var("y", 5, 1)) * var("z", 12)
    knobs = {"vector": vector, "items": items}
    assert assert_runs(body, "gpu_elementwise", knobs=knobs, tolerance=EXACT).knobs == knobs


@pytest.mark.parametrize(
    ("body", "lanes"),
    [
        (relay.exp(var("x", 3, 8)), 4),
        (relay.exp(var("x", 8, 6)), 2),
        (relay.exp(var("x", 8, 7)), 1),
        (relay.nn.pad(var("x", 2, 4), ((0, 0), (2, 2))), 1),
    ],
)
def test_vectors_divide_the_last_axis(body: relay.Expr, lanes: int) -> None:
    info = describe(body)
    assert knobs_of(GPU_ELEMENTWISE, info)["vector"].default == lanes
