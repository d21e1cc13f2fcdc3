"""Random functions planned in random ways: the numbers are those without a plan.

``python benchmarks/random_plans.py --count 2000`` tries many more.
"""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_plans import check_blocks, check_plan, is_well_conditioned, planner_options
from tests.random_relay import random_relay
from tests.relay_modules import TARGET, graph, inputs_of, module, var
from tvm_fusionx.fusion import PlannerOptions, plan
from tvm_fusionx.report.bench.plain_tvm import build_plain, run_once

FAST_EXAMPLES = 8
SLOW_EXAMPLES = 60


def _square_of_gate() -> tvm.relay.Expr:
    x = var("x", 1, 1, 1)
    gate = tvm.relay.tanh(x) * x
    return tvm.relay.tanh(tvm.relay.nn.batch_matmul(gate, gate, transpose_b=True))


@pytest.mark.slow
@settings(max_examples=FAST_EXAMPLES)
@given(random_relay(), planner_options(), st.booleans())
def test_small_functions_keep_their_numbers(
    mod: tvm.IRModule, options: PlannerOptions, rewrite: bool
) -> None:
    check_plan(mod, options, rewrite=rewrite)


@pytest.mark.slow
@settings(max_examples=SLOW_EXAMPLES)
@given(random_relay(most_steps=25), planner_options(), st.booleans())
def test_functions_keep_their_numbers(
    mod: tvm.IRModule, options: PlannerOptions, rewrite: bool
) -> None:
    check_plan(mod, options, rewrite=rewrite)


def test_a_plan_beyond_its_limits_is_seen() -> None:
    x = var("x", 64, 512)
    made = plan(graph(tvm.relay.exp(tvm.relay.tanh(x))))
    check_blocks(made, PlannerOptions())
    with pytest.raises(AssertionError):
        check_blocks(made, PlannerOptions(deny=frozenset(["exp"])))


@pytest.mark.slow
@settings(max_examples=1)
@given(st.just(module(tvm.relay.exp(var("x", 4)))))
def test_wrong_numbers_are_seen(mod: tvm.IRModule) -> None:
    wrong = [np.full(4, 9.0, "float32")]
    with pytest.raises(AssertionError):
        check_plan(mod, PlannerOptions(), rewrite=False, run=lambda *_: wrong)


@pytest.mark.slow
@settings(max_examples=1)
@given(st.just(module(_square_of_gate())))
def test_float64_decides_where_plain_tvm_is_off(mod: tvm.IRModule) -> None:
    # TVM's tanh of 2.5e-4 is off by 5.6e-5 of it.
    check_plan(mod, PlannerOptions(), rewrite=False)


def test_what_cancels_out_says_nothing() -> None:
    x = var("x", 4, 6)
    centred = x - tvm.relay.mean(x, axis=-1, keepdims=True)
    for result, is_steady in ((centred, True), (tvm.relay.mean(centred, axis=-1), False)):
        mod = module(result)
        inputs = inputs_of(mod)
        plain = build_plain(mod, TARGET, opt_level=0)
        assert is_well_conditioned(plain, inputs, run_once(plain, inputs)) is is_steady
