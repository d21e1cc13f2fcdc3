from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.search.small_spaces import CNNS, PRUNING, STAGE, TRANSFORMERS, pruned
from tvm_fusionx.errors import SpaceError
from tvm_fusionx.search.space import Choice, Repeat
from tvm_fusionx.search.space_file import PRUNING_METHOD, load_space, parse_space, pruning_of


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "space.json"
    path.write_text(json.dumps(TRANSFORMERS))
    assert load_space(path) == parse_space(TRANSFORMERS)


@pytest.mark.parametrize("text", [None, "{", "[1]", pytest.param("[" * 100_000, id="nested")])
def test_another_file_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "space.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SpaceError, match="search space"):
        load_space(path)


def test_pruning_is_a_symbol_of_scheme_and_rate() -> None:
    (layers,) = (item for item in pruned().items[-1:] if isinstance(item, Repeat))
    (choice,) = (each for each in layers.choices if each.name == "pruning")
    assert choice.options == ("none", "filter:0.5", "filter:0.75", "block4x1:0.5", "block4x1:0.75")
    assert pruning_of("block4x1:0.75") == ("block4x1", 0.75)
    assert pruning_of("none") == ("none", 0.0)


@pytest.mark.parametrize("content", [CNNS, TRANSFORMERS])
def test_how_all_is_pruned_is_one_decision_the_first(content: dict[str, Any]) -> None:
    space = parse_space({**content, "pruning": {**PRUNING, "methods": ["admm", "one_shot"]}})
    assert space.items[0] == Choice(PRUNING_METHOD, ("admm", "one_shot"))


WRONG: dict[str, Any] = {
    "family": {**TRANSFORMERS, "family": "mlp"},
    "hidden": {**TRANSFORMERS, "hidden": []},
    "tokens": {**TRANSFORMERS, "tokens": True},
    "classes": {name: value for name, value in TRANSFORMERS.items() if name != "classes"},
    "depth": {**TRANSFORMERS, "depth": [1]},
    "feed_forward": {**TRANSFORMERS, "feed_forward": [16, 16]},
    "heads": {**TRANSFORMERS, "heads": [5]},
    r"hidden.*1 to 1048576": {**TRANSFORMERS, "hidden": [10**15]},
    "stages": {**CNNS, "stages": []},
    "stage0": {**CNNS, "stages": [3]},
    r"stage0\.kernel": {**CNNS, "stages": [{**STAGE, "kernel": [2]}]},
    r"stage1\.kind": {**CNNS, "stages": [STAGE, {**STAGE, "kind": "dense"}]},
    r"stage0\.width": {**CNNS, "stages": [{**STAGE, "width": [-8]}]},
    "pruning, schemes": {**CNNS, "pruning": {**PRUNING, "schemes": ["block4"]}},
    "pruning, rates": {**CNNS, "pruning": {**PRUNING, "rates": [1]}},
    "pruning, rates: expected one share": {**CNNS, "pruning": {"schemes": ["filter"]}},
    "pruning, methods": {**CNNS, "pruning": {**PRUNING, "methods": ["lottery"]}},
    "pruning: expected an object": {**CNNS, "pruning": ["filter"]},
}


@pytest.mark.parametrize("about", WRONG)
def test_what_is_wrong_in_a_space_is_told(about: str) -> None:
    with pytest.raises(SpaceError, match=about):
        parse_space(WRONG[about])
