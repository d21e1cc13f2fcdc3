from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compress.prune.nearest_points import best_of_tiles, choices_of_patterns, tiles_of
from tvm_fusionx.compress.prune.structures import (
    BLOCK,
    CONNECTIVITY,
    FILTER,
    KINDS,
    N_M,
    PATTERN,
    UNSTRUCTURED,
    Structure,
    sparsity_of,
)


def _weights(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("structure", "shape", "parts"),
    [
        (Structure(UNSTRUCTURED, 0.6), (3, 4), 1),
        (Structure(BLOCK, 0.5, block_size=(2, 1)), (4, 5), 1),
        (Structure(BLOCK, 0.5, block_size=(2, 3)), (5, 7), 1),
        (Structure(BLOCK, 0.5, block_size=(1, 4)), (3, 8), 1),
        (Structure(BLOCK, 0.5, block_size=(4, 1)), (6, 3), 2),
        (Structure(CONNECTIVITY, 0.5, group_size=2), (4, 3, 3, 3), 1),
        (Structure(CONNECTIVITY, 0.7, group_size=1), (3, 4, 2, 2, 2), 1),
        (Structure(FILTER, 0.5), (6, 2, 3), 1),
    ],
)
def test_what_is_kept_of_tiles_is_nearest(
    structure: Structure, shape: tuple[int, ...], parts: int, seed: int
) -> None:
    weights = _weights(*shape, seed=seed)
    mask = structure.mask(weights, parts)
    tiles = tiles_of(structure, shape, parts)
    whole = [bool(mask[tile].all()) for tile in tiles]
    assert not any(mask[tile].any() and not all_ for tile, all_ in zip(tiles, whole, strict=True))
    count = sum(whole)
    assert count == max(1, round((1 - structure.target_sparsity) * len(tiles)))
    kept = float(np.square(weights[mask]).sum())
    assert kept == pytest.approx(best_of_tiles(structure, weights, count, parts), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("group_size", [1, 2])
def test_patterns_and_cut_kernels_together_are_nearest(group_size: int, seed: int) -> None:
    structure = Structure(PATTERN, 0.8, group_size=group_size, patterns=3)
    weights = _weights(2, 2 * group_size, 3, 3, seed=seed)
    patterns = structure.choose(weights)
    assert patterns is not None
    mask = structure.mask(weights, 1, patterns)
    # Kernels that share a pattern: one a group of outputs and an input.
    energy = np.square(weights.astype("float64")).reshape(
        2 // group_size, group_size, 2 * group_size, 9
    )
    kernels = energy.sum(axis=1).reshape(-1, 9)
    count = round(0.2 * 9 / 4 * len(kernels))
    best = max(
        sum(float(kernel[chosen].sum()) for kernel, chosen in zip(kernels, choice, strict=True))
        for choice in choices_of_patterns(patterns, len(kernels))
        if sum(bool(chosen.any()) for chosen in choice) <= count
    )
    assert float(np.square(weights[mask]).sum()) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_of_each_m_weights_n_are_the_smallest(seed: int) -> None:
    weights = _weights(3, 10, seed=seed)
    mask = Structure(N_M, 0.5, n_m_ratio=(2, 4)).mask(weights)
    assert mask[:, 8:].all()
    for row, kept in zip(weights, mask, strict=True):
        for start in (0, 4):
            part, stays = np.abs(row[start : start + 4]), kept[start : start + 4]
            assert stays.sum() == 2
            assert part[stays].min() >= part[~stays].max()


def test_groups_share_patterns_and_cuts() -> None:
    weights = _weights(8, 6, 3, 3)
    mask = Structure(PATTERN, 0.85, group_size=4).mask(weights)
    groups = mask.reshape(2, 4, 6, 9)
    assert (groups == groups[:, :1]).all()
    kernels = groups[:, 0].sum(axis=2)
    assert set(np.unique(kernels)) == {0, 4}
    # The middle of a kernel that stays, stays.
    assert groups[:, 0][kernels > 0][:, 4].all()
    own = Structure(PATTERN, 0.85, group_size=1).mask(weights)
    assert np.square(weights[own]).sum() > np.square(weights[mask]).sum()


@pytest.mark.parametrize(
    ("window", "entries"), [((3, 3), 4), ((5, 5), 11), ((7, 7), 22), ((3, 3, 3), 12), ((3,), 1)]
)
def test_a_pattern_alone_keeps_four_of_nine(window: tuple[int, ...], entries: int) -> None:
    weights = _weights(4, 4, *window)
    mask = Structure(PATTERN, 5 / 9, group_size=2).mask(weights)
    assert (mask.reshape(16, -1).sum(axis=1) == entries).all()


def test_a_smaller_rate_keeps_more_entries_before_kernels_are_cut() -> None:
    structure = Structure(PATTERN, 5 / 9)
    assert structure.at(0.3).kept_entries(9) == 6
    assert structure.at(0.0).kept_entries(9) == 9
    assert structure.at(0.9).kept_entries(9) == 4
    assert Structure(PATTERN, 0.5, entries=5).kept_entries(9) == 5


def test_balanced_rows_keep_as_many_tiles_each() -> None:
    weights = _weights(16, 40)
    weights[:8] *= 10
    structure = Structure(BLOCK, 0.75, block_size=(4, 1))
    assert not structure.mask(weights)[8:].any()
    even = Structure(BLOCK, 0.75, block_size=(4, 1), balanced=True).mask(weights)
    assert (even.sum(axis=1) == 10).all()


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from([kind for kind in KINDS if kind != N_M]),
    sparsity=st.floats(0, 0.95),
    outputs=st.integers(1, 9),
    inputs=st.integers(2, 9),
    size=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_a_projection_stays_where_it_is(
    kind: str, sparsity: float, outputs: int, inputs: int, size: int, seed: int
) -> None:
    structure = Structure(kind, sparsity, group_size=size, block_size=(size, 2))
    weights = _weights(outputs, inputs, 3, 3, seed=seed)
    patterns = structure.choose(weights)
    mask = structure.mask(weights, 1, patterns)
    pruned = weights * mask
    assert mask.shape == weights.shape
    assert mask.any()
    again = structure.mask(pruned, 1, patterns)
    assert (pruned * again == pruned).all()


@pytest.mark.parametrize(
    ("structure", "shape", "words"),
    [
        (Structure(PATTERN, 0.5), (8, 8), "one entry"),
        (Structure(CONNECTIVITY, 0.5), (8, 8, 1, 1), "one entry"),
        (Structure(PATTERN, 0.5), (8, 1, 3, 3), "depthwise"),
        (Structure(N_M, 0.5, n_m_ratio=(2, 4)), (8, 3), "shorter than m"),
        (Structure(BLOCK, 0.5), (8, 3), None),
    ],
)
def test_what_does_not_suit_is_told(
    structure: Structure, shape: tuple[int, ...], words: str | None
) -> None:
    reason = structure.why_not(shape)
    assert (reason is None) if words is None else (reason is not None and words in reason)


def test_zeros_are_counted() -> None:
    assert sparsity_of(np.array([0.0, -0.0, 1.0, 2.0])) == 0.5
