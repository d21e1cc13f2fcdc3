"""Multiply-adds that take one lane of a vector: an operand loaded four numbers at a time.

Arm's multiply-add multiplies a vector by one lane of another, so that numbers that lie side by side
are loaded together. Elsewhere each is loaded and spread by an instruction of its own, which costs
what a load does.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.processors.cpu import FLOAT32_BITS, Cpu
from tvm_fusionx.schedules.parts.vectors import broadcast

# Vectors of 128 bits in 32 registers are Advanced SIMD's (Arm ARM, section B1.2.1).
NEON_BITS, NEON_REGISTERS = 128, 32


def lanes_multiplied(cpu: Cpu) -> int:
    """Return the float32 lanes of a vector that multiply-adds can take one by one; 1 where none."""
    is_neon = cpu.lanes * FLOAT32_BITS == NEON_BITS and cpu.registers == NEON_REGISTERS
    return cpu.lanes if is_neon else 1


def lane_of(vector: Any, lane: int, lanes: int) -> Any:
    """Return a vector of `lanes` times the lane `lane` of `vector`."""
    return broadcast(tir.Shuffle([vector], [lane]), lanes)
