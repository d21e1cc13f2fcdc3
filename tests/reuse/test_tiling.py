"""How the kernel is divided: registers are enough, and vectors divide what they share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.reuse_layers import drawn
from tests.schedules.blocked_blocks import AVX2, AVX512, NEON
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.reuse.tiling import (
    hash_lanes,
    hash_row_choices,
    hash_vectors,
    product_row_choices,
    result_lanes,
    vector_choices,
)


@pytest.mark.parametrize("cpu", [AVX2, AVX512, NEON], ids=["AVX2", "AVX512", "NEON"])
@pytest.mark.parametrize("seed", range(12))
def test_tiles_fit_the_registers(cpu: Cpu, seed: int) -> None:
    layer = drawn(seed)
    lanes, vectors = hash_lanes(layer, cpu), hash_vectors(layer, cpu)
    assert lanes * (vectors - 1) < layer.bits <= lanes * vectors
    assert hash_row_choices(layer, cpu)[-1] * vectors + vectors + 1 <= cpu.registers
    assert layer.block % result_lanes(layer, cpu) == 0
    for wide in vector_choices(layer, cpu):
        assert layer.channels % (wide * result_lanes(layer, cpu)) == 0
        rows = product_row_choices(layer, wide, cpu)[-1]
        assert rows * wide + wide + 1 <= cpu.registers


def test_lanes_are_as_many_as_bits_need() -> None:
    layer = replace(drawn(0), bits=5)
    assert [hash_lanes(layer, cpu) for cpu in (AVX2, AVX512, NEON)] == [8, 8, 4]
    assert hash_lanes(replace(layer, bits=9), AVX512) == 16
    assert hash_lanes(replace(layer, bits=1), AVX512) == 1
