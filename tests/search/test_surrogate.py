from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from tests.search.small_spaces import cnns, pruned, transformers
from tvm_fusionx.search.journal import Result
from tvm_fusionx.search.reward import Reward
from tvm_fusionx.search.space import Candidate, Space, candidate_key
from tvm_fusionx.search.surrogate import (
    INITIAL,
    Encoding,
    GaussianProcess,
    SurrogateStrategy,
    Told,
    gain,
)


def judged(candidate: Candidate, limit_us: float = math.inf) -> Result:
    """Return what a candidate is worth here: large ones are accurate, and slow."""
    choices = candidate["choices"]
    layers = [name for name in choices if name.endswith("feed_forward")]
    us = 50.0 + sum(choices[name] * choices["hidden"] / 16 for name in layers)
    wide = sum(choices[name] == 32 for name in layers) / 3
    accuracy = 0.5 + 0.2 * wide + 0.1 * (choices["hidden"] == 24)
    if us > limit_us:
        return Result(candidate, latency_us=us, failure="slow")
    return Result(candidate, 1.0, accuracy, us)


def _search(strategy: Any, batches: int, limit_us: float = math.inf) -> list[Result]:
    found = []
    for _ in range(batches):
        results = [judged(each, limit_us) for each in strategy.ask(4)]
        strategy.tell([strategy.reward(each) for each in results])
        strategy.observe(results)
        found += results
    return found


@pytest.mark.parametrize("space", [transformers, cnns, pruned])
def test_vectors_tell_candidates_apart(space: Any) -> None:
    made: Space = space()
    encode = Encoding(made)
    generator = random.Random(0)
    vectors: dict[str, bytes] = {}
    lengths = set()
    for _ in range(200):
        candidate = made.sample(generator)
        vector = encode(candidate)
        vectors[candidate_key(candidate)] = vector.tobytes()
        lengths.add(len(vector))
        assert np.isfinite(vector).all()
        assert 0 <= vector.min() <= vector.max() <= 1
    assert len(lengths) == 1
    assert len(set(vectors.values())) == len(vectors)


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


def _told(*rows: tuple[float, float]) -> Told:
    accuracy, us = (np.array(column) for column in zip(*rows, strict=True))
    small = np.full(len(rows), 0.01)
    return Told(accuracy, small, np.log(us), small)


def _front() -> list[Result]:
    candidate = next(iter(transformers().every()))
    return [Result(candidate, 1.0, accuracy, us) for accuracy, us in ((0.6, 100.0), (0.8, 200.0))]


@pytest.mark.parametrize(
    ("reward", "rows", "best"),
    [
        (Reward(), [(0.75, 120.0), (0.85, 400.0)], 1),
        (Reward(150.0), [(0.66, 140.0), (0.85, 400.0)], 0),
        # As accurate a network for twice the limit is worth 5 % less.
        (Reward(150.0, -0.07), [(0.84, 150.0), (0.86, 300.0)], 0),
        (Reward(least_accuracy=0.7), [(0.61, 90.0), (0.85, 190.0), (0.75, 150.0)], 2),
        # 0.62 at 110 us joins the front; 0.78 at 210 us is beaten by what is there.
        (Reward(is_front=True), [(0.78, 210.0), (0.62, 110.0)], 1),
    ],
)
def test_what_is_asked_for_decides(
    reward: Reward, rows: list[tuple[float, float]], best: int
) -> None:
    gains = gain(_told(*rows), _front(), reward)
    assert (gains >= 0).all()
    assert int(gains.argmax()) == best


@pytest.mark.parametrize("limit", [math.inf, 180.0])
def test_it_finds_the_best_sooner_than_chance(limit: float) -> None:
    space = transformers()
    best = max(Reward(limit)(judged(each)) for each in space.every())
    strategy = SurrogateStrategy(space, 1, Reward(limit))
    found = _search(strategy, 8, limit)
    assert max(each.accuracy for each in found if not math.isnan(each.accuracy)) == best
    # Of what it asks for after the beginning, nothing was known.
    keys = [candidate_key(each.candidate) for each in found[INITIAL:]]
    assert len(set(keys)) == len(keys)
    again = _search(SurrogateStrategy(space, 1, Reward(limit)), 8, limit)
    assert [each.key for each in again] == [each.key for each in found]


def test_a_space_that_is_told_gives_what_is_known() -> None:
    space = transformers().without("layers", [2, 3]).without("hidden", [24])
    strategy = SurrogateStrategy(space, 0)
    found = _search(strategy, 8)
    assert len({each.key for each in found}) <= space.size() == 4
    assert len(found) == 32
