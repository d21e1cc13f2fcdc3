from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.search.filled_database import estimator_for, fill
from tests.search.small_spaces import TRANSFORMERS, transformers
from tvm_fusionx.errors import RecordError
from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.search.latency import LatencyEstimator
from tvm_fusionx.search.latency_table import (
    COLUMNS,
    candidates_for_table,
    fill_table,
    load_table,
    save_table,
)
from tvm_fusionx.search.networks import layers_of
from tvm_fusionx.search.planning import contexts_of
from tvm_fusionx.search.space import Space
from tvm_fusionx.search.space_file import parse_space


def _space() -> Space:
    one = {"layers": [1, 2], "hidden": [16], "heads": [2], "feed_forward": [16]}
    return parse_space({**TRANSFORMERS, **one})


def _contexts(space: Space) -> set[str]:
    return {name for each in space.every() for name in contexts_of(layers_of(each))}


@pytest.fixture(scope="module", name="filled")
def fixture_filled(tmp_path_factory: pytest.TempPathFactory) -> LatencyEstimator:
    database = ProfileDatabase(tmp_path_factory.mktemp("table") / "p.sqlite")
    fill(estimator_for(database), _space().every())
    estimator = estimator_for(database)
    assert fill_table(_space(), estimator, most=10) == 2
    estimator.launch_us = 0.5
    return estimator


@pytest.mark.parametrize("most", [1000, 100])
def test_candidates_for_a_table_have_every_layer(most: int) -> None:
    chosen = list(candidates_for_table(transformers(), most))
    found = {name for each in chosen for name in contexts_of(layers_of(each))}
    assert found == _contexts(transformers())
    assert len(chosen) < transformers().size() / 2
    assert len(list(candidates_for_table(transformers(), 3))) == 3


def test_a_table_is_written_and_read_again(filled: LatencyEstimator, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    save_table(filled, _space(), path)
    fresh = estimator_for(ProfileDatabase(tmp_path / "empty.sqlite"))
    assert load_table(fresh, path) == len(_contexts(_space()))
    for candidate in _space().every():
        assert fresh.latency_of(candidate) == filled.latency_of(candidate)
    assert fresh.planner.planned == 0


def test_a_sheet_has_a_row_a_kernel(filled: LatencyEstimator, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    save_table(filled, _space(), path)
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    uses = [use for each in filled.planner.contexts.values() for use in each or ()]
    assert len(rows) == len(uses)
    assert {(row[1], float(row[3])) for row in rows} == {
        (use.key, filled.times()[use.key]) for use in uses
    }


@pytest.mark.parametrize("damage", ["no file", "no json", "nested", "version", "kernel", "setting"])
def test_another_table_is_refused(damage: str, filled: LatencyEstimator, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    save_table(filled, _space(), path)
    content = json.loads(path.read_text())
    if damage == "version":
        content["fusionx_latency_table"] = 99
    elif damage == "kernel":
        content["kernels"].popitem()
    elif damage == "setting":
        content["setting"]["device"] = "another"
    texts = {"no json": "{", "nested": "[" * 100_000}
    path.write_text(texts.get(damage, json.dumps(content)))
    if damage == "no file":
        path.unlink()
    with pytest.raises(RecordError, match="latency table"):
        load_table(estimator_for(filled.database), path)
