from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.search.small_spaces import TRANSFORMERS, cnns, pruned, transformers
from tvm_fusionx.errors import SpaceError
from tvm_fusionx.search.space import (
    Choice,
    Space,
    candidate_key,
    candidate_text,
)
from tvm_fusionx.search.space_file import parse_space

SPACES = {"transformers": transformers, "cnns": cnns, "pruned": pruned}


@pytest.mark.parametrize("name", SPACES)
@given(seed=st.integers(0, 1 << 30))
def test_samples_and_mutations_are_of_the_space_and_plain(name: str, seed: int) -> None:
    space = SPACES[name]()
    generator = random.Random(seed)
    candidate = space.sample(generator)
    mutated = space.mutate(candidate, generator)
    for each in (candidate, mutated):
        space.check(each)
        assert json.loads(json.dumps(each)) == each
    assert candidate_key(mutated) != candidate_key(candidate)
    again = space.sample(random.Random(seed))
    assert again == candidate
    assert candidate_key(again) == candidate_key(candidate)


def test_a_mutation_changes_one_decision_and_what_hangs_on_it() -> None:
    space = transformers()
    generator = random.Random(0)
    candidate = space.sample(generator)
    for _ in range(50):
        mutated = space.mutate(candidate, generator)
        before, after = candidate["choices"], mutated["choices"]
        changed = [name for name in before if after.get(name, before[name]) != before[name]]
        grown = after["layers"] > before["layers"]
        assert len(changed) <= 1 or changed[0] == "hidden"
        assert changed or grown or after["layers"] < before["layers"]
        candidate = mutated


def test_a_high_rate_of_mutation_changes_more() -> None:
    space = pruned()
    generator = random.Random(1)
    candidate = space.sample(generator)

    def changed(rate: float) -> int:
        total = 0
        for _ in range(20):
            after = space.mutate(candidate, generator, rate)["choices"]
            total += sum(after.get(name) != value for name, value in candidate["choices"].items())
        return total

    assert changed(0.9) > 2 * changed(0.0)


def test_the_size_is_what_counting_says() -> None:
    small = parse_space({**TRANSFORMERS, "hidden": [16, 20, 24], "heads": [2, 4, 8]})
    # Heads of 16 and 24 may be 2, 4 or 8, those of 20 only 2 or 4; two feed-forward sizes.
    assert small.size() == sum(2 * 6**n + 4**n for n in (1, 2, 3))
    every = [candidate_key(candidate) for candidate in small.every()]
    assert len(every) == len(set(every)) == small.size()
    assert cnns().size() == 4 * (8 + 64) ** 2


def test_every_begins_with_the_first_options() -> None:
    first = next(iter(transformers().every()))["choices"]
    assert first == {"layers": 1, "hidden": 16, "layer0.heads": 2, "layer0.feed_forward": 16}


def test_decisions_come_in_order_count_first() -> None:
    space = transformers()
    names = [name for name, _ in space.decisions(space.sample(random.Random(3)))]
    assert names[:4] == ["layers", "hidden", "layer0.heads", "layer0.feed_forward"]
    places = [int(name[5]) for name in names[2:]]
    assert all(a <= b for a, b in pairwise(places))


def test_a_space_has_a_name_of_its_decisions() -> None:
    assert transformers().digest() == transformers().digest()
    digests = {space().digest() for space in SPACES.values()}
    assert len(digests) == 3
    other = parse_space({**TRANSFORMERS, "classes": 4})
    assert other.digest() != transformers().digest()


def test_options_are_taken_out() -> None:
    space = cnns().without("kernel", [3])
    assert space.size() == 4 * (4 + 16) ** 2
    with pytest.raises(SpaceError, match="Keep one of them"):
        space.without("kernel", [1])


def test_all_is_pinned_but_what_is_open() -> None:
    space = pruned()
    candidate = space.sample(random.Random(2))
    part = space.pinned(candidate, lambda name: name.endswith(".pruning"))
    layers = [name for name in candidate["choices"] if name.endswith(".pruning")]
    assert part.size() == 5 ** len(layers)
    for seed in range(20):
        found = part.sample(random.Random(seed))
        space.check(found)
        for name, value in found["choices"].items():
            assert name in layers or value == candidate["choices"][name]
    everything = space.pinned(candidate, lambda name: True)
    assert everything.sample(random.Random(0))["choices"].keys() == candidate["choices"].keys()
    with pytest.raises(SpaceError):
        space.pinned({**candidate, "family": "transformer"}, lambda name: True)


def _changed(**choices: Any) -> dict[str, Any]:
    candidate = transformers().sample(random.Random(0))
    candidate["choices"] = {**candidate["choices"], **choices}
    return candidate


@pytest.mark.parametrize(
    ("candidate", "about"),
    [
        (_changed(hidden=17), "hidden.*17"),
        (_changed(**{"layer9.heads": 2}), "layer9.heads.*no such decision"),
        (_changed(layers=3) | {"family": "cnn"}, "family"),
        (_changed() | {"fixed": {}}, "fixed"),
        ({"family": "transformer"}, "choices"),
    ],
)
def test_a_foreign_candidate_is_refused(candidate: dict[str, Any], about: str) -> None:
    with pytest.raises(SpaceError, match=about):
        transformers().check(candidate)


def test_a_missing_decision_is_refused() -> None:
    candidate = _changed()
    del candidate["choices"]["layer0.heads"]
    with pytest.raises(SpaceError, match=r"layer0\.heads.*nothing"):
        transformers().check(candidate)


def test_a_space_of_one_candidate_has_no_mutation() -> None:
    one = Space("transformer", {}, (Choice("hidden", (4,)),))
    with pytest.raises(SpaceError, match="more than one"):
        one.mutate(one.sample(random.Random(0)), random.Random(0))


def test_a_decision_without_valid_option_is_told() -> None:
    odd = Space("transformer", {}, (Choice("hidden", (4,)), Choice("heads", (3,), "hidden")))
    with pytest.raises(SpaceError, match="divides hidden=4"):
        odd.sample(random.Random(0))


def test_a_candidate_in_words() -> None:
    assert "hidden=" in candidate_text(_changed())
