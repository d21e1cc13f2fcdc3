"""The least time of a block on a machine of round numbers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks.scripts import script
from tvm_fusionx.schedules.block_work import Work

rates = script("machine_rates")

KIBI = 1024


def _machine(**facts: Any) -> Any:
    levels = len(rates.WORKING_SETS)
    return rates.MachineRates(
        **{
            "threads": 2,
            "call_seconds": 1e-7,
            "launch_seconds": 1e-6,
            "multiply_adds_per_second": 1e11,
            "divisions_per_second": 1e10,
            "bytes_per_second": {
                name: tuple(rate * (levels - at) for at in range(levels))
                for name, rate in (("copy", 1e9), ("read", 2e9), ("fill", 5e8))
            },
            **facts,
        }
    )


def test_bandwidth_is_that_of_the_level_that_holds_the_working_set() -> None:
    machine = _machine()
    first, second = rates.WORKING_SETS[:2]
    assert machine.bandwidth("copy", first) == machine.bytes_per_second["copy"][0]
    assert machine.bandwidth("copy", 1) == machine.bytes_per_second["copy"][0]
    between = machine.bandwidth("copy", int((first * second) ** 0.5))
    assert between == pytest.approx(sum(machine.bytes_per_second["copy"][:2]) / 2, rel=1e-3)
    assert machine.bandwidth("copy", 1 << 40) == machine.memory_bandwidth


@pytest.mark.parametrize(
    ("read", "written", "both", "rest", "movement"),
    [(3, 1, 2, 2, "read"), (1, 3, 2, 2, "fill"), (2, 2, 4, 0, "read")],
)
def test_what_is_not_read_and_written_alike_has_its_own_rate(
    read: int, written: int, both: int, rest: int, movement: str
) -> None:
    machine = _machine()
    found = machine.movement_seconds(Work(read_bytes=read * KIBI, written_bytes=written * KIBI))
    total = (read + written) * KIBI
    expected = both * KIBI / machine.bandwidth("copy", total)
    expected += rest * KIBI / machine.bandwidth(movement, total)
    assert found == pytest.approx(expected)


def test_little_arithmetic_stays_on_one_thread() -> None:
    machine = _machine()
    little = machine.limits(Work(instructions=1000))[rates.ARITHMETIC]
    assert little == pytest.approx(1e-7 + 2 * 1000 / 1e11)
    much = machine.limits(Work(instructions=10**8))[rates.ARITHMETIC]
    assert much == pytest.approx(1e-7 + 1e-6 + 10**8 / 1e11)


def test_divisions_have_a_limit_of_their_own() -> None:
    limits = _machine().limits(Work(instructions=10**6, divisions=10**6))
    assert limits[rates.DIVISION] > limits[rates.ARITHMETIC]


def test_the_better_of_two_measurements_is_kept_and_read_again() -> None:
    slow = _machine(multiply_adds_per_second=1e10, call_seconds=1e-8)
    best = _machine().best_of(slow)
    assert (best.multiply_adds_per_second, best.call_seconds) == (1e11, 1e-8)
    assert rates.MachineRates.from_json(best.to_json()) == best
    assert best.peak_flops == 2e11
