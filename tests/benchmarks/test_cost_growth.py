from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relay

from tests.benchmarks.scripts import script

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


def test_new_points_take_the_place_of_older_ones() -> None:
    def point(size: int, milliseconds: float) -> Any:
        return growth.Point(size, size, 1.0, milliseconds, milliseconds)

    first = growth.merged({}, [point(4, 4.0)])
    assert first["exponents"] == {}
    second = growth.merged(first, [point(2, 2.0), point(4, 16.0)])
    assert [each["size"] for each in second["points"]] == [2, 4]
    assert second["exponents"]["fusionx_ms"] == pytest.approx(3)


@pytest.mark.slow
def test_building_and_timing_are_two_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    libraries, found = tmp_path / "libraries", tmp_path / "growth.json"
    words = ["cost_growth.py", "--axis", "batch", "--sizes", "1", "2"]
    words += ["--libraries", str(libraries), "--json", str(found), "--repeat"]
    monkeypatch.setattr(growth, "AXES", {"batch": (lambda n: growth.transformer(1, 4 * n), (1,))})
    monkeypatch.setattr(sys, "argv", [*words, "0"])
    growth.main()
    assert not found.exists()
    assert sorted(path.name for path in libraries.iterdir()) == [
        "batch-1-fusionx.so",
        "batch-1-tvm.so",
        "batch-2-fusionx.so",
        "batch-2-tvm.so",
    ]

    def never(*_: object) -> None:
        raise AssertionError("built a second time")

    for builder in ("build_fused", "build_plain"):
        monkeypatch.setattr(growth, builder, never)
    monkeypatch.setattr(sys, "argv", [*words, "1"])
    growth.main()
    axis = json.loads(found.read_text())["batch"]
    assert [point["size"] for point in axis["points"]] == [1, 2]
    for point in axis["points"]:
        assert point["kernels"] >= 3
        assert min(point["planning_s"], point["fusionx_ms"], point["tvm_ms"]) > 0
    assert set(axis["exponents"]) == {"planning_s", "fusionx_ms", "tvm_ms"}
