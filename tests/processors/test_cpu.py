"""What a target offers, by its own description and not the host's."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import tvm

from tvm_fusionx.processors import cpu as descriptions
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.processors.rates import Rates

CPUS = {
    "llvm -mcpu=core-avx2 -num-cores=4": (8, 16, 4),
    "llvm -mcpu=skylake-avx512 -num-cores=1": (16, 32, 1),
    "llvm -mcpu=x86-64 -num-cores=1": (4, 16, 1),
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=8": (4, 32, 8),
    "llvm -mtriple=aarch64-linux-gnu -mattr=+neon -num-cores=2": (4, 32, 2),
}


@pytest.mark.parametrize("target", CPUS)
def test_vectors_and_registers(target: str) -> None:
    cpu = describe_cpu(tvm.target.Target(target))
    assert (cpu.lanes, cpu.registers, cpu.cores) == CPUS[target]


def test_multiply_adds_of_neon_alone_take_an_operand_from_a_lane() -> None:
    by_lane = [
        target for target in CPUS if describe_cpu(tvm.target.Target(target)).multiplies_by_lane
    ]
    assert by_lane == [target for target in CPUS if "aarch64" in target]


@pytest.mark.parametrize(
    ("target", "kibibytes"),
    [
        ("llvm -mcpu=skylake", (32, 256)),
        ("llvm -mcpu=znver4", (32, 1024)),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a55", (32, 128)),
        ("llvm -mcpu=x86-64", (32, 1024)),
    ],
)
def test_caches(target: str, kibibytes: tuple[int, int]) -> None:
    cpu = describe_cpu(tvm.target.Target(target))
    l1, l2 = kibibytes
    assert (cpu.l1_bytes, cpu.l2_bytes) == (1024 * l1, 1024 * l2)
    assert cpu.l2_for_kernel_bytes == 512 * l2


@pytest.mark.parametrize(
    ("target", "count"),
    [
        ("llvm -mcpu=znver4", 1),
        # Halves of such vectors begin twice.
        ("llvm -mcpu=znver4 -mattr=-avx512f", 2),
        ("llvm -mcpu=rocketlake", 1),
        ("llvm -mcpu=sapphirerapids", 2),
        ("llvm -mcpu=znver3", 2),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a78", 2),
    ],
)
def test_multiply_adds_that_begin_in_a_cycle(target: str, count: int) -> None:
    assert describe_cpu(tvm.target.Target(target)).multiply_adds == count


@pytest.mark.parametrize(
    ("name", "is_slow"),
    [("sapphirerapids", True), ("skylake-avx512", True), ("skylake", False), ("znver4", False)],
)
def test_cores_of_a_mesh_exchange_slowly(name: str, is_slow: bool) -> None:
    assert describe_cpu(tvm.target.Target(f"llvm -mcpu={name}")).exchanges_slowly == is_slow


def test_the_sums_that_hide_the_latency_follow_from_it() -> None:
    cpu = Cpu(lanes=8, registers=16, cores=2, multiply_add_units=2, multiply_add_latency=4)
    assert cpu.sums_to_hide_latency == 8
    assert replace(cpu, multiply_add_latency=5).sums_to_hide_latency == 10
    assert replace(cpu, multiply_add_units=1).sums_to_hide_latency == 4


@pytest.mark.parametrize(
    ("lanes", "units", "bits", "count"),
    [
        (4, 2, 128, 2),
        (8, 2, 128, 1),
        (16, 2, 256, 1),
        (16, 2, 512, 2),
        (4, 2, 64, 1),
        (16, 4, 256, 2),
    ],
)
def test_wider_vectors_than_units_begin_less_often(
    lanes: int, units: int, bits: int, count: int
) -> None:
    cpu = Cpu(lanes, 32, 1, multiply_add_units=units, multiply_add_bits=bits)
    assert cpu.multiply_adds == count


def test_the_last_level_and_the_rates_are_those_of_the_row() -> None:
    cpu = describe_cpu(tvm.target.Target("llvm -mcpu=znver4"))
    assert cpu.llc_slice_bytes == 32 << 20
    assert (cpu.l2_bytes_a_cycle, cpu.llc_bytes_a_cycle, cpu.memory_bytes_a_cycle) == (32, 12, 4)
    assert (cpu.loads_a_cycle, cpu.addition_latency) == (2, 3)


@pytest.mark.parametrize(
    ("target", "bits"),
    [
        ("-mcpu=cortex-a76", 0),
        # The least that the architecture allows, where the core is not known.
        ("-mattr=+neon,+sve", 128),
        ("-mcpu=neoverse-v2", 128),
        ("-mcpu=neoverse-v2 -mattr=-sve", 0),
    ],
)
def test_scalable_vectors_are_those_of_the_features(target: str, bits: int) -> None:
    cpu = describe_cpu(tvm.target.Target(f"llvm -mtriple=aarch64-linux-gnu {target}"))
    assert cpu.scalable_bits == bits
    # Templates use vectors of a fixed width.
    assert cpu.lanes == 4


def test_schedules_see_every_number_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {each.name: 1024 + place for place, each in enumerate(fields(Rates))}
    row = Rates(**{**told, "exchanges_slowly": True})
    monkeypatch.setattr(descriptions, "rates_of", lambda core: row)
    # No other test asks for so many cores: the description is made anew.
    target = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+sve -num-cores=1021"
    cpu = describe_cpu(tvm.target.Target(target))
    descriptions._describe_cpu.cache_clear()
    for name, value in vars(row).items():
        if name.endswith("_kib"):
            assert getattr(cpu, name.replace("_kib", "_bytes")) == 1024 * value, name
        else:
            assert getattr(cpu, name) == value, name
