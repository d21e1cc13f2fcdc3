from __future__ import annotations

import random

from tests.search.small_spaces import CNNS, PRUNING, pruned, transformers
from tvm_fusionx.search.pruned_spaces import (
    is_pruned,
    methods_of,
    pruned_anew,
    settled,
    unpruned,
)
from tvm_fusionx.search.space_file import PRUNING_METHOD, parse_space

SPACE = parse_space({**CNNS, "pruning": {**PRUNING, "methods": ["gradual", "admm"]}})


def test_the_part_without_zeros_is_all_architectures() -> None:
    part = unpruned(SPACE)
    assert part is not None
    candidate = part.sample(random.Random(0))
    SPACE.check(candidate)
    assert not is_pruned(candidate)
    assert candidate["choices"][PRUNING_METHOD] == "gradual"
    plain = parse_space(CNNS)
    assert part.size() == plain.size() < SPACE.size()


def test_a_space_without_pruning_is_its_own_part() -> None:
    assert unpruned(transformers()) == transformers()
    assert methods_of(transformers()) == ()


def test_where_all_layers_are_pruned_there_is_no_such_part() -> None:
    always = {**PRUNING, "schemes": ["filter", "block4x1"]}
    assert unpruned(parse_space({**CNNS, "pruning": always})) is None


def test_what_has_no_zeros_has_the_first_algorithm() -> None:
    part = unpruned(SPACE)
    assert part is not None
    candidate = part.sample(random.Random(0))
    other = {**candidate, "choices": {**candidate["choices"], PRUNING_METHOD: "admm"}}
    assert settled(SPACE, other) == candidate
    assert other["choices"][PRUNING_METHOD] == "admm"
    name = next(name for name in other["choices"] if name.endswith(".pruning"))
    cut = {**other, "choices": {**other["choices"], name: "filter:0.5"}}
    assert is_pruned(cut)
    assert settled(SPACE, cut) == cut
    network = transformers().sample(random.Random(0))
    assert settled(transformers(), network) == network


def test_pruned_anew_it_is_the_same_architecture() -> None:
    generator = random.Random(1)
    candidate = SPACE.sample(generator)
    counts = set()
    for _ in range(60):
        child = pruned_anew(SPACE, candidate, generator, "admm")
        SPACE.check(child)
        before, after = candidate["choices"], child["choices"]
        assert {n: v for n, v in after.items() if "pruning" not in n} == {
            n: v for n, v in before.items() if "pruning" not in n
        }
        assert after[PRUNING_METHOD] == "admm"
        counts.add(sum(v != "none" for n, v in after.items() if n.endswith(".pruning")))
    layers = sum(name.endswith(".pruning") for name in candidate["choices"])
    assert counts == set(range(layers + 1))
    kept = pruned_anew(SPACE, candidate, generator)
    assert kept["choices"][PRUNING_METHOD] == candidate["choices"][PRUNING_METHOD]
    network = pruned().sample(generator)
    assert set(pruned_anew(pruned(), network, generator)["choices"]) == set(network["choices"])
