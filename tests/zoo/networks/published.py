"""Hold an architecture to the counts that its paper prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

RELATIVE = 0.02


@dataclass(frozen=True)
class Counts:
    """What one pass through a network costs, counted without computing anything."""

    parameters: int
    multiply_adds: int
    outputs: list[tuple[int, ...]]


def count(make: Callable[[], Any], *shapes: Sequence[int]) -> Counts:
    """Build the network without memory for its weights, pass shapes through, and count."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        module = make().eval()
        arguments = [torch.empty(tuple(shape)) for shape in shapes]
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            result = module(*arguments)
    outputs = result if isinstance(result, tuple) else (result,)
    return Counts(
        parameters=sum(parameter.numel() for parameter in module.parameters()),
        multiply_adds=counter.get_total_flops() // 2,
        outputs=[tuple(output.shape) for output in outputs],
    )


def printed(text: str) -> Any:
    """Return what a number printed as `text` allows: 2 %, or its last digit where that is more.

    >>> 5_288_548 == printed("5.3M")
    True
    """
    scale = {"k": 10**3, "M": 10**6, "G": 10**9}[text[-1]]
    digits = text[:-1]
    value = float(digits)
    half_of_last_digit = 0.5 * 10.0 ** -len(digits.partition(".")[2])
    return pytest.approx(value * scale, abs=max(RELATIVE * value, half_of_last_digit) * scale)
