from __future__ import annotations

import json

import pytest

from tvm_fusionx.compress.prune.config import PruneConfig
from tvm_fusionx.compress.prune.layouts import CONV, EMBEDDING, LINEAR, Layout
from tvm_fusionx.compress.prune.structures import Structure
from tvm_fusionx.errors import InputError

BLOCK, PATTERN = Structure("block", 0.5), Structure("pattern", 0.5)
CONFIG = PruneConfig(BLOCK, {CONV: PATTERN, EMBEDDING: None}, {"small": BLOCK, "kept": None})


def test_a_name_goes_before_a_type_and_that_before_the_rest() -> None:
    def told(name: str, kind: str, *shape: int) -> tuple[Structure | None, str]:
        return CONFIG.structure_of(Layout(name, kind, shape))

    assert told("a", LINEAR, 64, 64) == (BLOCK, "")
    assert told("a", CONV, 64, 64, 3, 3) == (PATTERN, "")
    assert told("small", LINEAR, 4, 4) == (BLOCK, "")
    assert told("a", LINEAR, 4, 4) == (None, "has fewer than 2048 weights")
    assert told("kept", LINEAR, 64, 64) == (None, "not to be pruned")
    assert told("a", EMBEDDING, 64, 64) == (None, "not to be pruned")
    assert told("a", CONV, 64, 64, 1, 1) == (None, "its kernels have one entry")
    assert PruneConfig().structure_of(Layout("a", LINEAR, (64, 64)))[0] is None


def test_another_sparsity_everywhere() -> None:
    moved = CONFIG.at(0.9)
    assert moved.global_config == BLOCK.at(0.9)
    assert moved.op_type_configs == {CONV: PATTERN.at(0.9), EMBEDDING: None}
    assert moved.op_name_configs["kept"] is None
    assert moved.training == CONFIG.training
    json.dumps(moved.to_json())


def test_a_layer_that_is_not_there_is_told() -> None:
    CONFIG.check_names([Layout("small", LINEAR, (2, 2)), Layout("kept", LINEAR, (2, 2))])
    with pytest.raises(InputError, match="Did you mean 'smal'"):
        CONFIG.check_names([Layout("smal", LINEAR, (2, 2))])
