"""Plan a random function in a random way, build it, run it, and compare with no plan at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from hypothesis import assume, note
from hypothesis import strategies as st
from tvm import relay

from tests.relay_modules import REASSOCIATING, TARGET, assert_close, inputs_of
from tvm_fusionx.fusion import Limits, Plan, PlannerOptions
from tvm_fusionx.fusion.planner import PLANNERS
from tvm_fusionx.lowering import lowering
from tvm_fusionx.passes import FuseByMapping, PackLayouts, RewriteGraph
from tvm_fusionx.passes.fuse_by_mapping import fuse_module
from tvm_fusionx.report.bench.plain_tvm import build_plain, run_once
from tvm_fusionx.report.verify.exact import exact_outputs
from tvm_fusionx.schedules import resolve_target

INPUT_SEED = 0
# What inputs of float32 leave open may be this share of the tolerance.
STEADY = 0.25
OPERATOR_LIMITS = (2, 3, 5, 64)
DENIED = ("add", "tanh", "transpose", "mean")


@st.composite
def planner_options(draw: st.DrawFn) -> PlannerOptions:
    """Draw how to plan."""
    return PlannerOptions(
        Limits(operators=draw(st.sampled_from(OPERATOR_LIMITS))),
        planner=draw(st.sampled_from(PLANNERS)),
        deny=frozenset(draw(st.lists(st.sampled_from(DENIED), max_size=1))),
    )


Run = Callable[[Any, "Mapping[str, np.ndarray]"], "Sequence[np.ndarray]"]


def check_plan(
    mod: tvm.IRModule, options: PlannerOptions, *, rewrite: bool, run: Run = run_once
) -> None:
    """Check a function's plan, and that its numbers are plain TVM's without fusion or float64's.

    Parameters
    ----------
    mod
        Function of static shapes.
    options
        How it is planned.
    rewrite
        Whether laws are applied and layouts packed before.
    run
        Runs the planned library.
    """
    # Hypothesis prints these for the function that fails, shrunk; the inputs follow from the seed.
    note(mod.astext(show_meta_data=True))
    note(f"{options}, rewrite={rewrite}, inputs_of(mod, seed={INPUT_SEED})")
    target = resolve_target(TARGET)
    inputs = inputs_of(mod, INPUT_SEED)
    changed = mod
    if rewrite:
        changed = tvm.transform.Sequential([RewriteGraph(), PackLayouts(target)])(mod)
    # What the target offers beside: pairs of convolutions.
    full = FuseByMapping(target, options=options).planner_options()
    fused, plans = fuse_module(changed, full)
    check_blocks(plans["main"], options)
    with lowering(target):
        library = relay.build(fused, target)
    plain = build_plain(mod, TARGET, opt_level=0)
    expected = run_once(plain, inputs)
    assert all(np.isfinite(array).all() for array in expected)
    # A sum of what cancels out is nothing but rounding: no two orders of additions agree on it.
    assume(is_well_conditioned(plain, inputs, expected))
    found = run(library, inputs)
    try:
        assert_close(found, expected, REASSOCIATING)
    except AssertionError:
        # Plain TVM is no better than float32 itself, and its tanh of small numbers is worse.
        exact = exact_outputs(mod["main"], list(inputs.values()), target)
        narrow = [wide.astype(array.dtype) for wide, array in zip(exact, expected, strict=True)]
        assert_close(found, narrow, REASSOCIATING)


def is_well_conditioned(
    plain: Any, inputs: Mapping[str, np.ndarray], expected: Sequence[np.ndarray]
) -> bool:
    """Tell whether inputs that are moved by their last bit leave the outputs where they were."""
    moved = run_once(plain, {name: np.nextafter(v, np.inf) for name, v in inputs.items()})
    return all(
        np.abs(first - second).max() <= STEADY * REASSOCIATING * np.abs(second).max()
        for first, second in zip(moved, expected, strict=True)
    )


def check_blocks(plan: Plan, options: PlannerOptions) -> None:
    """Check that a plan holds every call once, in order, within its limits, with reasons."""
    held = Counter(node for block in plan.blocks for node in block.nodes)
    assert set(held.values()) <= {1}
    assert set(held) == set(plan.labels)
    place = {node: number for number, block in enumerate(plan.blocks) for node in block.nodes}
    for block in plan.blocks:
        assert len(block.nodes) <= options.limits.operators
        assert len(block.nodes) == 1 or options.deny.isdisjoint(block.ops)
        for node in block.nodes:
            for value in node.operands:
                assert place.get(value.node, -1) <= place[node]
    for edge in plan.edges:
        assert edge.fused is (edge.producer_block == edge.consumer_block)
        assert edge.fused is (edge.reason is None)
    if plan.solution is not None:
        assert plan.solution.bound_us <= plan.solution.found_us <= plan.solution.greedy_us
