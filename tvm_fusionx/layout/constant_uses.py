"""How often a block multiplies each element of a constant: what its loads are spread over."""

from __future__ import annotations

import math
from typing import Any

from tvm_fusionx.ecg import NotAGraphError, from_relay
from tvm_fusionx.ecg.flops import flops
from tvm_fusionx.processors.targets import is_cpu

# An addition and a multiplication for each use.
_FLOPS_A_USE = 2

# A kernel for CPUs converts a vector of weights for each register tile that it multiplies it with,
# which costs a tenth to a fifth of the tile's time; half of the bytes from memory are worth that
# only while a weight is fetched for so few multiplications.
_MOST_USES_ON_CPU = 32


def most_narrow_uses(target: Any) -> float:
    """Return how often a constant's elements may be multiplied for it to be worth 16 bits."""
    return _MOST_USES_ON_CPU if is_cpu(target) else math.inf


def uses_of(constant: Any, block: Any) -> float:
    """Return how often each element of a constant is used, at most; 1 where that is not known.

    Parameters
    ----------
    constant
        An operand of the block's call.
    block
        Its Relay function, typed.
    """
    try:
        total = sum(map(flops, from_relay(block).calls()))
    except NotAGraphError:
        return 1.0
    elements = math.prod(int(extent) for extent in constant.data.shape)
    return max(1.0, total / _FLOPS_A_USE / max(1, elements))
