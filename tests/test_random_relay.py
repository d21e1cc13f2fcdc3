"""Random Relay functions through the whole pipeline: the numbers are plain TVM's."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import tvm
from hypothesis import given, note, settings
from tvm import relay

from tests.random_relay import random_relay
from tests.relay_modules import REASSOCIATING, TARGET, assert_close, blocks_of, inputs_of, run_plain
from tvm_fusionx.build.pipeline import pipeline
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target

FAST_EXAMPLES = 25
SLOW_EXAMPLES = 150
INPUT_SEED = 0


def _check(mod: tvm.IRModule) -> None:
    # Hypothesis prints these for the function that fails, shrunk; the inputs follow from the seed.
    note(mod.astext(show_meta_data=True))
    note(f"inputs_of(mod, seed={INPUT_SEED})")
    inputs = inputs_of(mod, INPUT_SEED)
    fused = pipeline(TARGET)(mod)
    _check_blocks(fused)
    with lowering(TARGET):
        library = relay.build(fused, resolve_target(TARGET))
    found, expected = run_once(library, inputs), run_plain(mod, inputs)
    assert all(np.isfinite(array).all() for array in expected)
    assert_close(found, expected, REASSOCIATING)


def _check_blocks(fused: tvm.IRModule) -> None:
    """Check that every operator of ``main`` is in exactly one block, and block names are unique."""
    outside: list[str] = []

    def visit(node: object) -> None:
        if isinstance(node, relay.Call) and isinstance(node.op, tvm.ir.Op):
            outside.append(str(node.op.name))

    blocks = blocks_of(fused)
    relay.analysis.post_order_visit(fused["main"].body, visit)
    inside: list[str] = []
    for block in blocks:
        relay.analysis.post_order_visit(
            block.body,
            lambda node: inside.append(str(node.op.name)) if isinstance(node, relay.Call) else None,
        )
    assert Counter(outside) == Counter(inside)
    names = [str(block.attrs["fusionx.block"]) for block in blocks]
    assert len(set(names)) == len(names)


@pytest.mark.slow
@settings(max_examples=FAST_EXAMPLES)
@given(random_relay())
def test_small_functions_keep_their_numbers(mod: tvm.IRModule) -> None:
    _check(mod)


@pytest.mark.slow
@settings(max_examples=SLOW_EXAMPLES)
@given(random_relay(most_steps=25))
def test_functions_keep_their_numbers(mod: tvm.IRModule) -> None:
    _check(mod)
