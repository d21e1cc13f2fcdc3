from __future__ import annotations

import json
from typing import Any

import pytest
import tvm
from tvm import relay

from tests.relay_modules import TARGET, module, var
from tvm_fusionx._tvm.executors import STORAGE_PLANNER, changed_executors, without_planned_images
from tvm_fusionx.schedules import resolve_target

MODULE = module(relay.nn.relu(var("x", 4)))


def _built() -> dict[str, Any]:
    library = relay.build(MODULE, resolve_target(TARGET))
    return dict(json.loads(library.get_graph_json()), params=dict(library.get_params()))


def test_graphs_and_constants_are_changed_inside_of_the_scope_only() -> None:
    def change(graph: str, params: Any) -> tuple[str, Any]:
        return json.dumps({**json.loads(graph), "seen": True}), params

    with changed_executors(change):
        assert "seen" in _built()
    assert "seen" not in _built()


def test_the_scope_ends_with_an_error_too() -> None:
    def fail(graph: str, params: Any) -> tuple[str, Any]:
        raise ValueError("changed too much")

    with pytest.raises(ValueError, match="changed too much"), changed_executors(fail):
        _built()
    assert "nodes" in _built()


def test_tvm_plans_images_for_its_own_kernels_outside_of_the_scope_only() -> None:
    before = tvm.get_global_func(STORAGE_PLANNER)
    with without_planned_images():
        assert not tvm.get_global_func(STORAGE_PLANNER)(MODULE["main"])
    assert tvm.get_global_func(STORAGE_PLANNER).handle.value == before.handle.value
