from __future__ import annotations

from tests.tiny_models import TARGET
from tvm_fusionx.report import machine_peak
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.cpu import describe_cpu

STEPS, ELEMENTS = 1 << 10, 1 << 12


def test_both_rates_are_measured_on_all_threads() -> None:
    found = machine_peak.measure_machine_peak(TARGET, STEPS, ELEMENTS)
    assert found.gflops_per_second > 0
    assert found.gbytes_per_second > 0
    assert set(found.to_json()) == {"gflops_per_second", "gbytes_per_second", "threads"}
    assert found.threads >= 1


def test_the_multiply_adds_stay_in_registers() -> None:
    import tvm

    target = resolve_target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")
    program = machine_peak._multiply_adds(2, describe_cpu(target).lanes, STEPS)
    text = tvm.build(program, target=target).get_source("asm")
    lines = [line.split("#")[0] for line in text.splitlines() if "vfmadd" in line]
    assert len(lines) >= machine_peak.SUMS
    # Two operands in registers; at most the constant may come from memory.
    assert not [line for line in lines if "rsp" in line]


def test_it_computes_what_it_is_taken_for() -> None:
    import numpy as np
    import tvm

    lanes = describe_cpu(resolve_target(TARGET)).lanes
    program = machine_peak._multiply_adds(1, lanes, 2)
    values = tvm.nd.array(np.full(machine_peak.SUMS * lanes, 3.0, "float32"))
    tvm.build(program, target=resolve_target(TARGET))(values)
    assert np.allclose(values.numpy(), (3 * 0.5 + 0.5) * 0.5 + 0.5, rtol=1e-6)
