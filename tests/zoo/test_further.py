from __future__ import annotations

import re

import numpy as np
import pytest

from tvm_fusionx import zoo
from tvm_fusionx.zoo.further import FURTHER_RECIPES
from tvm_fusionx.zoo.recipes import RECIPES


def test_they_are_no_part_of_what_is_measured() -> None:
    assert set(zoo.further_names()) == set(FURTHER_RECIPES)
    assert not set(FURTHER_RECIPES) & set(RECIPES)
    assert not set(FURTHER_RECIPES) & set(zoo.names())


@pytest.mark.parametrize("name", FURTHER_RECIPES)
def test_every_row_says_what_it_is_and_its_size(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9-]+", name)
    assert re.search(r"\d+x\d+|\d+ tokens|\d+ frames", zoo.summary(name))
    assert FURTHER_RECIPES[name].packages


@pytest.mark.parametrize("name", FURTHER_RECIPES)
def test_sample_inputs_are_repeatable(name: str) -> None:
    pytest.importorskip("PIL")
    first, second = zoo.sample_inputs(name), zoo.sample_inputs(name)
    assert all(value.any() for value in first.values())
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key])


def test_sentences_of_a_batch_differ_in_length() -> None:
    mask = zoo.sample_inputs("bert-base-long")["attention_mask"]
    assert mask.shape == (8, 256)
    assert len(set(mask.sum(axis=1).tolist())) > 1
