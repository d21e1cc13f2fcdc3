from __future__ import annotations

import re

import pytest

from tvm_fusionx.zoo.recipes import RECIPES


@pytest.mark.parametrize("name", RECIPES)
def test_every_row_says_what_it_is_and_its_size(name: str) -> None:
    row = RECIPES[name]
    assert re.fullmatch(r"[a-z0-9-]+", name)
    assert "\n" not in row.summary
    assert re.search(r"\d+x\d+|\d+ tokens|\d+ frames", row.summary)
    assert row.packages
