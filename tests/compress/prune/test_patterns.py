from __future__ import annotations

import itertools

import numpy as np
import pytest

from tvm_fusionx.compress.prune.patterns import (
    centre_of,
    choose_patterns,
    grouped_energy,
    pattern_mask,
)


def test_the_middle_of_a_window() -> None:
    assert [centre_of(window) for window in [(3, 3), (5, 5), (3, 3, 3), (3,)]] == [4, 12, 13, 1]


def test_patterns_that_were_planted_are_found_in_the_order_of_how_often() -> None:
    generator = np.random.default_rng(0)
    planted = np.zeros((3, 9), bool)
    planted[0, [0, 1, 3, 4]] = planted[1, [4, 5, 7, 8]] = planted[2, [1, 2, 4, 5]] = True
    often = [0] * 30 + [2] * 20 + [1] * 10
    generator.shuffle(often)
    weights = planted[often] * generator.uniform(1, 2, (60, 9)) + generator.normal(size=(60, 9)) / 9
    found = choose_patterns(np.square(weights).reshape(6, 10, 9), (3, 3), 4, 3)
    assert (found == planted[[0, 2, 1]]).all()


@pytest.mark.parametrize("seed", range(4))
def test_one_pattern_is_the_best_of_all_there_are(seed: int) -> None:
    energy = np.square(np.random.default_rng(seed).normal(size=(5, 4, 9)))
    (found,) = choose_patterns(energy, (3, 3), 4, 1)
    total = energy.sum(axis=(0, 1))
    best = max(
        total[[4, *others]].sum() for others in itertools.combinations([0, 1, 2, 3, 5, 6, 7, 8], 3)
    )
    assert total[found].sum() == pytest.approx(best)


@pytest.mark.parametrize(("window", "entries"), [((3, 3), 4), ((5, 5), 11), ((7, 7), 22)])
def test_more_patterns_keep_more(window: tuple[int, int], entries: int) -> None:
    squares = np.square(np.random.default_rng(1).normal(size=(8, 8, *window)))
    energy = grouped_energy(squares, 1)
    kept = []
    for count in (1, 4, 16):
        patterns = choose_patterns(energy, window, entries, count)
        assert len(patterns) == count
        assert len(np.unique(patterns, axis=0)) == count
        assert (patterns.sum(axis=1) == entries).all()
        assert patterns[:, centre_of(window)].all()
        kept.append(squares[pattern_mask(squares, patterns, 1)].sum())
    assert kept == sorted(kept)


def test_improving_beats_counting_where_no_two_kernels_agree() -> None:
    squares = np.square(np.random.default_rng(2).normal(size=(16, 16, 5, 5)))
    energy = grouped_energy(squares, 1)
    patterns = choose_patterns(energy, (5, 5), 11, 8)
    kernels = energy.reshape(-1, 25)
    order = np.argsort(-np.where(np.arange(25) == 12, np.inf, kernels), axis=1)[:, :11]
    own = np.zeros(kernels.shape, bool)
    np.put_along_axis(own, order, True, axis=1)
    counted = own[:8]  # each kernel's own is the best once: counting takes any eight
    assert (kernels @ patterns.T).max(1).sum() > (kernels @ counted.T).max(1).sum()


def test_energy_is_summed_within_parts() -> None:
    squares = np.arange(5 * 2 * 4, dtype="float64").reshape(5, 2, 2, 2)
    whole = grouped_energy(squares, 2)
    assert whole.shape == (3, 2, 4)
    assert (whole[2] == squares[4].reshape(2, 4)).all()
    parts = grouped_energy(np.concatenate([squares[:3]] * 2), 2, 2)
    assert parts.shape == (4, 2, 4)
    assert (parts[1] == squares[2].reshape(2, 4)).all()
    assert (parts[:2] == parts[2:]).all()
