"""The template of last resort serves what others serve better."""

from __future__ import annotations

import pytest
import tvm
from tvm import relay

from tests.relay_modules import module, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import assert_computes, unscheduled
from tests.schedules.matrix_blocks import layer_norm, packed_dense
from tvm_fusionx.schedules import schedule

BLOCKS = {
    "elementwise": relay.exp(var("x", 7, 9)),
    "norm": layer_norm(var("x", 5, 33), 33),
    "product": packed_dense(5, 32, 7),
    "scalar": relay.sum(var("x", 7, 9)),
}


@pytest.mark.parametrize("case", few_fast(BLOCKS))
def test_block(case: str) -> None:
    target = tvm.target.Target("llvm -num-cores=2")
    scheduled = schedule(unscheduled(BLOCKS[case]), target, template="default")
    assert scheduled.template == "default"
    assert_computes(scheduled.func, target, module(BLOCKS[case]))
