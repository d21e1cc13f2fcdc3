"""What a target offers, by its own description and not the host's."""

from __future__ import annotations

import json

import pytest
import tvm
from tvm.target import codegen

from tvm_fusionx.processors import host_cpu
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.host_cpu import cache_kibibytes

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
    # Of the second level, a kernel may fill half.
    l1, l2 = kibibytes
    assert (cpu.l1_bytes, cpu.l2_bytes) == (1024 * l1, 512 * l2)


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


def test_every_fact_is_of_a_known_cpu() -> None:
    facts = json.loads(host_cpu.CORES.read_text(encoding="utf-8"))
    assert {*facts["one_multiply_add"], *facts["slow_exchange"]} <= facts["caches"].keys()


def test_llvm_knows_every_cpu_of_the_table() -> None:
    triples = ("x86_64-linux-gnu", "aarch64-linux-gnu")
    known = {
        str(name)
        for triple in triples
        for name in codegen.llvm_get_cpu_archlist(tvm.target.Target(f"llvm -mtriple={triple}"))
    }
    assert cache_kibibytes().keys() <= known
