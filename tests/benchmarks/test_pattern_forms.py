from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.benchmarks.scripts import script
from tests.schedules.blocked_blocks import AVX2, NEON


def test_patterns_of_a_vector_of_channels_are_equal() -> None:
    forms = script("pattern_forms")
    weight = forms.shared_matrix(16, 8, 0.5)
    taps = np.count_nonzero(weight, axis=2)
    assert set(np.unique(taps)) == {0, forms.TAPS}
    assert (taps > 0).sum() == 16 * 8
    masks = weight.reshape(2, 8, 16, 9) != 0
    assert (masks == masks[:, :1]).all()


def test_bytes_and_cycles_of_both_forms() -> None:
    forms = script("pattern_forms")
    for cpu in (replace(AVX2, cores=1), replace(NEON, cores=1)):
        both = forms.forms_of(16, 12, 0.5, cpu)
        numbers = 16 * 8 * forms.TAPS
        assert both.csr == numbers * 8 + 17 * 4
        assert both.own_bytes == numbers * 4 + 16 * 8 * 2 + 16 * forms.FILTER_BYTES
        # Beside its numbers an offset for each vector of them, and what tells lists and channels.
        assert numbers * 4 + numbers // cpu.lanes * 4 < both.shared_bytes < both.csr
        assert both.own_cycles >= both.multiply_add_cycles
        assert both.shared_cycles >= both.multiply_add_cycles
        twice = forms.forms_of(16, 12, 1.0, cpu)
        assert twice.own_cycles == 2 * both.own_cycles
