from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.benchmarks.scripts import script
from tests.schedules.blocked_blocks import AVX2, NEON
from tvm_fusionx.processors.cpu import Cpu


@pytest.mark.parametrize("group", [8, 1])
def test_patterns_of_a_group_of_channels_are_equal(group: int) -> None:
    forms = script("pattern_forms")
    weight = forms.weight_of(16, group, 0.5).reshape(16, 16, 9)
    taps = np.count_nonzero(weight, axis=2)
    assert set(np.unique(taps)) == {0, forms.TAPS}
    assert (taps > 0).sum() == 16 * 8
    masks = weight.reshape(16 // group, group, 16, 9) != 0
    assert (masks == masks[:, :1]).all()


@pytest.mark.parametrize("cpu", [AVX2, NEON], ids=["AVX2", "NEON"])
def test_bytes_and_cycles_of_all_forms(cpu: Cpu) -> None:
    forms = script("pattern_forms")
    found = forms.forms_of(16, 12, 0.5, replace(cpu, cores=1))
    shared, patterns, scattered, rows = found.bytes
    numbers = 16 * 8 * forms.TAPS
    assert rows == numbers * 8 + 17 * 4
    # Beside its numbers an offset for each vector of them, and what tells lists and channels.
    assert numbers * 4 + numbers // cpu.lanes * 4 < shared < rows
    # A word for each kernel, or for each number; where those of a filter begin.
    assert numbers * 4 + 16 * 8 * 4 < patterns < scattered
    dense, *sparse = found.cycles
    assert all(0 < each < dense for each in sparse)
