from __future__ import annotations

import numpy as np

from tvm_fusionx.search.gaussian_process import GaussianProcess


def test_a_process_passes_its_points_and_doubts_what_is_far() -> None:
    generator = np.random.default_rng(0)
    points = generator.uniform(-3, 3, (40, 2))
    values = np.sin(points[:, 0]) + 0.5 * points[:, 1]
    process = GaussianProcess(points, values)
    mean, deviation = process(points)
    assert np.abs(mean - values).max() < 0.05
    between = generator.uniform(-2.5, 2.5, (50, 2))
    mean, near = process(between)
    expected = np.sin(between[:, 0]) + 0.5 * between[:, 1]
    assert np.sqrt(np.square(mean - expected).mean()) < 0.1
    _, far = process(np.full((1, 2), 40.0))
    assert far[0] > 5 * max(near.mean(), deviation.mean())


def test_noise_is_not_learned_by_heart() -> None:
    generator = np.random.default_rng(1)
    points = generator.uniform(-1, 1, (60, 1))
    process = GaussianProcess(points, generator.normal(size=60))
    assert process.noise == 0.5
