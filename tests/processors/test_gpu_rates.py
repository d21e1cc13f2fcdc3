from __future__ import annotations

import json

import pytest

from tvm_fusionx.errors import TargetError
from tvm_fusionx.processors.gpu_rates import FILE, GpuRates, gpu_named, known_gpus

GPU = GpuRates("example", alus=100, mhz=500, memory_gb_a_second=20, half_rate=2)


def test_every_number_has_a_source() -> None:
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    assert set(rows) == set(known_gpus())
    for row in rows.values():
        assert all(told["source"] and told["value"] > 0 for told in row.values())


def test_time_is_operations_by_units_and_clock() -> None:
    # 50,000 operations of 100 units at 500 MHz: 500 cycles, a microsecond.
    assert GPU.compute_us(50_000, 0, items=1000) == 1
    assert GPU.compute_us(0, 50_000, items=1000) == 0.5
    assert GPU.compute_us(50_000, 0, items=10) == 10


def test_memory_takes_bytes_by_bandwidth() -> None:
    assert GPU.memory_us(20_000) == 1


def test_an_unknown_gpu_is_told_with_those_that_are_known() -> None:
    with pytest.raises(TargetError, match="adreno-650, adreno-740"):
        gpu_named("adreno-9000")
