from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tvm_fusionx.compress.prune.config import PruneConfig, Training
from tvm_fusionx.compress.prune.read_config import parse_config, read_config
from tvm_fusionx.compress.prune.structures import Structure
from tvm_fusionx.errors import InputError

TABLE: dict[str, Any] = {
    "global_config": {"structure": "block", "block_size": 8, "target_sparsity": 0.75},
    "op_type_configs": {"conv": {"structure": "pattern"}, "embedding": None},
    "op_name_configs": {"head": {"structure": "n_m", "n_m_ratio": [2, 4]}},
    "training": {"method": "admm", "rho": [0.01, 0.1], "seed": 3},
}
YAML = """
global_config: {structure: block, block_size: 8, target_sparsity: 0.75}
op_type_configs:
  conv: {structure: pattern}
  embedding: null
op_name_configs:
  head: {structure: n_m, n_m_ratio: [2, 4]}
training: {method: admm, rho: [0.01, 0.1], seed: 3}
"""
TOML = """
[global_config]
structure = "block"
block_size = 8
target_sparsity = 0.75
[training]
seed = 3
"""


def test_a_table_becomes_structures() -> None:
    config = parse_config(TABLE)
    assert config.global_config == Structure("block", 0.75, block_size=(8, 1))
    assert config.op_type_configs["conv"] == Structure("pattern", 1 - 4 / 9)
    assert config.op_type_configs["embedding"] is None
    assert config.op_name_configs["head"] == Structure("n_m", 0.5, n_m_ratio=(2, 4))
    assert config.training == Training(method="admm", rho=(0.01, 0.1), seed=3)
    assert parse_config({}) == PruneConfig()


def test_files_say_the_same(tmp_path: Path) -> None:
    for name, text in (("c.yaml", YAML), ("c.json", json.dumps(TABLE))):
        (tmp_path / name).write_text(text)
        assert read_config(tmp_path / name) == parse_config(TABLE)
    (tmp_path / "c.toml").write_text(TOML)
    small = {"global_config": TABLE["global_config"], "training": {"seed": 3}}
    assert read_config(str(tmp_path / "c.toml")) == parse_config(small)
    assert read_config(parse_config(TABLE)) == read_config(TABLE)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"global_confg": {}}, "Did you mean 'global_config'"),
        ({"global_config": {"target_sparsty": 0.5}}, "Did you mean 'target_sparsity'"),
        ({"global_config": {"structure": "blok"}}, "perhaps block"),
        ({"global_config": {"structure": "block"}}, "target_sparsity for the structure 'block'"),
        ({"global_config": {"structure": "n_m"}}, "n_m_ratio for the structure"),
        ({"global_config": {"structure": "n_m", "n_m_ratio": [4, 4]}}, "n below m"),
        ({"global_config": {"structure": "filter", "block_size": 4}}, "a structure that has it"),
        ({"global_config": {"target_sparsity": 1}}, "from 0 below 1"),
        ({"global_config": {"structure": "block", "block_size": [1, 2, 3]}}, "[rows, columns]"),
        ({"op_type_configs": {"convs": None}}, "Did you mean 'conv'"),
        ({"op_name_configs": 3}, "op_name_configs"),
        ({"training": {"rho": []}}, "a list of them"),
        ({"training": {"method": "adm"}}, "perhaps admm"),
        ({"budget": {"target_latency_ms": 3, "target_accuracy": 0.9}}, "found both"),
    ],
)
def test_what_is_none_is_told(given: Any, told: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_config(given)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("c.yaml", "a: [", "a file of yaml"),
        ("c.json", "{", "a file of json"),
        ("c.toml", "a =", "a file of toml"),
        pytest.param("c.json", "[" * 100_000, "a file of json", id="nested"),
        ("c.yaml", "!!python/object/apply:os.getcwd []", "a file of yaml"),
        ("c.txt", "", "a name that ends in '.txt'"),
        ("c.yml", None, "no such file"),
    ],
)
def test_a_file_that_is_none_is_told(
    tmp_path: Path, name: str, text: str | None, told: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as raised:
        read_config(tmp_path / name)
    assert told in str(raised.value)
