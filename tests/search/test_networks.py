from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.search.small_spaces import cnns, pruned, transformers
from tvm_fusionx.errors import SpaceError
from tvm_fusionx.search.networks import input_of, layers_of, names_of
from tvm_fusionx.search.space import Candidate


def _first(**choices: int | str) -> Candidate:
    candidate = next(iter(transformers().every()))
    return {**candidate, "choices": {**candidate["choices"], **choices}}


def test_layers_have_words_that_equal_layers_share() -> None:
    one = [layer.symbol for layer in layers_of(_first())]
    assert one == [
        "embed rows=20 tokens=8 hidden=16",
        "encoder tokens=8 hidden=16 heads=2 feed_forward=16",
        "classify_tokens hidden=16 classes=3",
    ]
    two = layers_of(_first(layers=2, **{"layer1.heads": 2, "layer1.feed_forward": 16}))
    assert two[1] == two[2]
    assert names_of(two) == ["l0", "l1", "l2", "l3"]


def test_a_cnn_hands_its_widths_on() -> None:
    for seed in range(10):
        layers = layers_of(cnns().sample(random.Random(seed)))
        sizes = [dict(layer.sizes) for layer in layers]
        assert sizes[0]["inputs"] == 1
        assert sizes[0]["stride"] == 2
        for before, after in pairwise(sizes):
            assert after["inputs"] == before["outputs"]


def test_pruning_stands_in_the_symbol() -> None:
    candidate = next(iter(pruned().every()))
    candidate["choices"]["stage0.layer0.pruning"] = "filter:0.5"
    first, *_ = layers_of(candidate)
    assert first.pruning == "filter:0.5"
    assert first.symbol.endswith(" pruning=filter:0.5")


def test_inputs() -> None:
    assert input_of(_first(), 4) == ((4, 8), "int64")
    assert input_of(next(iter(cnns().every()))) == ((1, 1, 8, 8), "float32")


def test_an_unknown_family_is_told() -> None:
    with pytest.raises(SpaceError, match="family"):
        layers_of(_first() | {"family": "mlp"})
