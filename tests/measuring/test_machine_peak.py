from __future__ import annotations

from tests.tiny_models import TARGET
from tvm_fusionx.measuring import machine_peak

STEPS, ELEMENTS = 1 << 10, 1 << 12


def test_both_rates_are_measured_on_all_threads() -> None:
    found = machine_peak.measure_machine_peak(TARGET, STEPS, ELEMENTS)
    assert found.gflops_per_second > 0
    assert found.gbytes_per_second > 0
    assert set(found.to_json()) == {"gflops_per_second", "gbytes_per_second", "threads"}
    assert found.threads >= 1


def test_a_meter_measures_as_often_as_it_is_called() -> None:
    meter = machine_peak.multiply_add_meter(TARGET, STEPS, rounds=2)
    assert meter() > 0
    assert meter() > 0
