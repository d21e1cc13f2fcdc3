"""Tokens are chosen as asked: the likeliest, or drawn from a part, the same by the same seed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tvm_fusionx.apps.sampling import Sampler, Sampling, penalised
from tvm_fusionx.errors import InputError

# Chances of about 0.5, 0.3, 0.15 and 0.05.
LOGITS = np.log(np.asarray([0.15, 0.5, 0.05, 0.3], "float32"))


def _drawn(count: int = 400, **how: Any) -> Counter[int]:
    sampler = Sampler(Sampling(**how))
    return Counter(sampler.choose(LOGITS) for _ in range(count))


def test_greedy_takes_the_likeliest() -> None:
    assert _drawn(5) == {1: 5}


@pytest.mark.parametrize("temperature", [1e-12, 1e-300, 5e-324])
def test_next_to_no_temperature_takes_the_likeliest(temperature: float) -> None:
    assert _drawn(5, temperature=temperature) == {1: 5}


def test_draws_follow_the_chances() -> None:
    drawn = _drawn(4000, temperature=1.0)
    for token, chance in enumerate((0.15, 0.5, 0.05, 0.3)):
        # Five standard deviations of a share of 4,000 draws.
        assert abs(drawn[token] / 4000 - chance) < 5 * (chance * (1 - chance) / 4000) ** 0.5


@pytest.mark.parametrize(
    ("how", "tokens"),
    [
        ({"top_k": 2}, {1, 3}),
        ({"top_k": 1}, {1}),
        ({"top_p": 0.5}, {1}),
        ({"top_p": 0.79}, {1, 3}),
        ({"top_p": 0.81}, {0, 1, 3}),
        ({"top_k": 3, "top_p": 0.9}, {0, 1, 3}),
        ({}, {0, 1, 2, 3}),
    ],
)
def test_only_those_of_the_part_are_drawn(how: dict[str, Any], tokens: set[int]) -> None:
    assert set(_drawn(temperature=1.0, **how)) == tokens


def test_low_temperatures_are_nearly_greedy() -> None:
    assert _drawn(temperature=0.01) == {1: 400}


def test_a_seed_tells_what_is_drawn() -> None:
    def tokens(seed: int) -> list[int]:
        sampler = Sampler(Sampling(temperature=1.0, seed=seed))
        return [sampler.choose(LOGITS) for _ in range(50)]

    assert tokens(3) == tokens(3)
    assert tokens(3) != tokens(4)


def test_what_was_there_is_less_likely() -> None:
    logits = np.asarray([2.0, -2.0, 1.0])
    np.testing.assert_array_equal(penalised(logits, [0, 1, 1], 2.0), [1.0, -4.0, 1.0])
    np.testing.assert_array_equal(logits, [2.0, -2.0, 1.0])
    assert Sampler(Sampling(repetition_penalty=3.0)).choose(logits, [0]) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", 1e-320),
        ("repetition_penalty", float("inf")),
        ("seed", -1),
    ],
)
def test_numbers_that_mean_nothing_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name}: expected .*; found {value}"):
        Sampling(**{name: value})  # type: ignore[arg-type]
