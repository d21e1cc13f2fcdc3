from __future__ import annotations

import pytest
import tvm
from tvm import relay

from tests.benchmarks.scripts import script
from tests.tiny_models import TARGET
from tvm_fusionx.schedules import resolve_target

growth = script("cost_growth")


def _shape(expr: relay.Expr) -> tuple[int, ...]:
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(expr))
    return tuple(map(int, mod["main"].body.checked_type.shape))


def test_an_exponent_is_the_slope_of_the_logarithms() -> None:
    sizes = (1, 2, 4, 8)
    assert growth.exponent(sizes, [3 * size**2 for size in sizes]) == pytest.approx(2)
    points = [growth.Point(size, 1, 0.5, 2.0 * size, 1.0 * size**3) for size in sizes]
    found = growth.exponents(points)
    assert found == pytest.approx({"planning_s": 0, "fusionx_ms": 1, "tvm_ms": 3}, abs=1e-9)


def test_one_number_grows_and_nothing_else() -> None:
    assert _shape(growth.transformer(2, 32)) == (32, growth.FEATURES)
    assert _shape(growth.convolutions(32, 4)) == (4, growth.CHANNELS, 1, 1)
    for make, sizes in growth.AXES.values():
        assert len(sizes) >= 4
        assert sorted(sizes) == list(sizes)
        assert _shape(make(sizes[0]))


@pytest.mark.slow
def test_a_size_is_planned_built_and_timed() -> None:
    point = growth.measure(growth.transformer(1, 8), 8, resolve_target(TARGET), repeat=1)
    assert point.kernels >= 3
    assert min(point.planning_s, point.fusionx_ms, point.tvm_ms) > 0
