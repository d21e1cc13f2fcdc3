from __future__ import annotations

import random
from collections.abc import Callable

import onnx
import pytest

from tests.search.filled_database import TARGET
from tests.search.small_spaces import CNNS, STAGE, cnns, pruned, transformers
from tests.search.test_pruned_layers import candidate_of
from tvm_fusionx.frontend.from_onnx import from_onnx
from tvm_fusionx.fusion.block_key import block_keys
from tvm_fusionx.search.networks import layers_of
from tvm_fusionx.search.onnx_network import onnx_network
from tvm_fusionx.search.planning import CandidatePlanner, contexts_of
from tvm_fusionx.search.space import Candidate, Space


@pytest.fixture(scope="module", name="planner")
def fixture_planner() -> CandidatePlanner:
    return CandidatePlanner(TARGET)


def _of(space: Space, seed: int) -> Candidate:
    return space.sample(random.Random(seed))


@pytest.mark.parametrize("space", [cnns, transformers])
def test_its_kernels_are_those_of_the_build(
    planner: CandidatePlanner, space: Callable[[], Space]
) -> None:
    from tvm_fusionx.build.pipeline import phases
    from tvm_fusionx.passes.fuse_by_mapping import fuse_module

    candidate = _of(space(), 1)
    mod, _ = from_onnx(onnx_network(candidate))
    order = phases(TARGET)
    for phase in order:
        if phase.name == "fuse":
            break
        for each in phase.passes:
            mod = each(mod)
    _, plans = fuse_module(mod, order.phase("fuse").passes[0].planner_options())
    made = plans["main"]
    expected = [
        key
        for key, block in zip(block_keys(made), made.blocks, strict=True)
        if not block.is_reshape_only
    ]
    found = planner.plan(candidate, whole=True)
    assert sorted(use.key for use in found.uses) == sorted(expected)
    assert set(found.blocks) == set(expected)
    assert all(layer for layer in found.layers)


def test_a_candidate_of_known_layers_is_put_together(planner: CandidatePlanner) -> None:
    space = transformers()
    first = next(iter(space.every()))

    def two(*sizes: int) -> Candidate:
        choices = {**first["choices"], "layers": 2}
        for place, size in enumerate(sizes):
            choices |= {f"layer{place}.heads": 2, f"layer{place}.feed_forward": size}
        return {**first, "choices": choices}

    planner.plan(two(16, 16))
    planner.plan(two(32, 32))
    planned = planner.planned
    mixed = planner.plan(two(16, 32))
    assert mixed.is_composed
    assert planner.planned == planned
    whole = planner.plan(two(16, 32), whole=True)
    assert not whole.is_composed
    assert mixed.layers == whole.layers


def test_a_context_on_which_plans_disagree_is_not_used(planner: CandidatePlanner) -> None:
    candidate = _of(cnns(), 5)
    planner.plan(candidate)
    context = contexts_of(layers_of(candidate))[0]
    kept = planner.contexts[context]
    planner.contexts[context] = ()
    planner.plan(candidate, whole=True)
    assert planner.contexts[context] is None
    assert not planner.plan(candidate).is_composed
    planner.contexts[context] = kept


def test_neighbours_show_what_lies_outside() -> None:
    candidate = next(iter(transformers().every()))
    table, encoder, classes = contexts_of(layers_of(candidate))
    assert table.startswith("- | embed")
    assert encoder.split(" | ")[1].endswith("heads=2 feed_forward=16")
    assert classes.startswith("encoder tokens=8 hidden=16 | classify")
    assert classes.endswith(" | -")


def test_what_is_pruned_is_planned_with_its_zeros(planner: CandidatePlanner) -> None:
    stage = {**STAGE, "depth": [2], "width": [32], "kernel": [3], "kind": ["dense"]}
    pruned = candidate_of({**CNNS, "stages": [stage]}, "block16x1:0.75")
    names = [name for name in pruned["choices"] if name.endswith(".pruning")]
    dense = {**pruned, "choices": {**pruned["choices"], **dict.fromkeys(names, "none")}}
    assert not any("sparse" in use.signature for use in planner.plan(dense).uses)
    assert any("sparse" in use.signature for use in planner.plan(pruned).uses)


def test_who_prunes_may_be_another() -> None:
    candidate = next(iter(pruned().every()))
    candidate["choices"]["stage0.layer0.pruning"] = "filter:0.5"
    asked = []

    def prune(model: onnx.ModelProto, of: Candidate) -> onnx.ModelProto:
        asked.append(of)
        return model

    CandidatePlanner(TARGET, prune).model(candidate)
    assert asked == [candidate]
