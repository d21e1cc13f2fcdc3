from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import tvm

from tests.relay_modules import TARGET
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.errors import RecordError
from tvm_fusionx.measuring.calibration import (
    CHAIN,
    LARGE,
    PRODUCT,
    QUARTER,
    SMALL,
    TURNED,
    calibrate,
    calibrated_costs,
)
from tvm_fusionx.measuring.places import costs_path, setting_of

FLOAT_BYTES = 4
LAUNCH = 2.0
CACHE_RATE, MEMORY_RATE = 1000.0, 100.0


def _shape(mod: tvm.IRModule) -> tuple[int, ...]:
    (param,) = mod["main"].params
    return tuple(int(extent) for extent in param.checked_type.shape)


def _elements(mod: tvm.IRModule) -> int:
    total = 1
    for extent in _shape(mod):
        total *= extent
    return total


def _device(library: Any, mod: tvm.IRModule) -> float:
    """Answer as a device of known rates would, by what it is given to run."""
    kernels = len(KernelGraph.from_json(library.get_graph_json()).kernels)
    traffic = 2 * _elements(mod) * FLOAT_BYTES
    rate = MEMORY_RATE if _shape(mod) == LARGE else CACHE_RATE
    return kernels * (LAUNCH + traffic / rate)


def test_rates_follow_from_the_times() -> None:
    costs = calibrate(TARGET, _device)
    assert costs.launch_us == pytest.approx(LAUNCH)
    assert costs.cache_bytes_per_us == pytest.approx(CACHE_RATE)
    assert costs.memory_bytes_per_us == pytest.approx(MEMORY_RATE)
    # Whatever they compute, this device only moves bytes.
    seconds_a_chain = 2 * SMALL[0] * SMALL[1] * FLOAT_BYTES / CACHE_RATE
    assert costs.elements_per_us == pytest.approx(CHAIN * SMALL[0] * SMALL[1] / seconds_a_chain)
    assert costs.transcendentals_per_us == pytest.approx(costs.elements_per_us)
    assert costs.moved_per_us == pytest.approx(CACHE_RATE / (2 * FLOAT_BYTES))
    rows, depth, columns = PRODUCT
    assert costs.products_per_us == pytest.approx(columns * CACHE_RATE / (2 * FLOAT_BYTES))
    assert {QUARTER, TURNED}.isdisjoint({SMALL, LARGE})
    assert rows * depth > 0


@pytest.mark.slow
def test_a_device_that_seems_infinitely_fast_gets_positive_rates() -> None:
    assert all(value > 0 for value in asdict(calibrate(TARGET, lambda *_: 0.0)).values())


@pytest.mark.slow
def test_costs_are_measured_at_first_use_and_then_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_FUSIONX_DATA", str(tmp_path / "data"))
    path = costs_path(setting_of(TARGET))
    asked = []

    def device(library: Any, mod: tvm.IRModule) -> float:
        asked.append(mod)
        return _device(library, mod)

    made = calibrated_costs(TARGET, device)
    assert path.is_file()
    measured = len(asked)
    assert measured > 0
    assert calibrated_costs(TARGET, device) == made
    assert len(asked) == measured
    path.write_text("{")
    with pytest.raises(RecordError, match="calibrate"):
        calibrated_costs(TARGET)
