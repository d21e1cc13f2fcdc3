from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.counting.comparison import Ratio, ratios, relative_error
from tvm_fusionx.counting.count import Count
from tvm_fusionx.counting.tally import Tally


def count(side: str, instructions: int, cycles: float, *outputs: list[float]) -> Count:
    return Count(
        side=side,
        version="1",
        model="m",
        core="cortex-a76",
        emulated="cortex-a76",
        total=Tally(instructions=instructions, cycles={"neoverse-n1": cycles}),
        kernels=(),
        loops=(),
        outputs=tuple(np.array(each) for each in outputs),
    )


def test_each_measure_has_its_own_best() -> None:
    ours, a, b = count("fusionx", 120, 60.0), count("a", 100, 80.0), count("b", 200, 50.0)
    assert ratios(ours, [a, b]) == [
        Ratio("instructions", 1.2, "a"),
        Ratio("neoverse-n1", 1.2, "b"),
    ]
    assert ratios(ours, []) == []


def test_outputs_are_compared_in_a_row() -> None:
    reference = count("fusionx", 1, 1.0, [1.0, -4.0], [2.0])
    assert relative_error(count("a", 1, 1.0, [1.0, -4.0, 2.4]), reference) == pytest.approx(0.1)
    assert relative_error(reference, reference) == 0.0
    assert relative_error(count("a", 1, 1.0, [1.0]), reference) is None
    assert relative_error(count("a", 1, 1.0), count("b", 1, 1.0)) is None


def test_what_is_no_number_on_both_sides_is_equal() -> None:
    nan, inf = float("nan"), float("inf")
    reference = count("fusionx", 1, 1.0, [nan, inf, -4.0])
    assert relative_error(count("a", 1, 1.0, [nan, inf, -3.0]), reference) == 0.25
    assert relative_error(count("a", 1, 1.0, [1.0, inf, -4.0]), reference) == inf
    assert relative_error(count("a", 1, 1.0, [nan, -inf, -4.0]), reference) == inf
