from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import assert_close
from tests.schedules.blocked_blocks import unscheduled
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import describe_block, describe_cpu, resolve_target, schedule
from tvm_fusionx.schedules.converted_apart import converted_apart
from tvm_fusionx.tir.stored_types import as_single

TARGET = resolve_target("llvm -mcpu=haswell -num-cores=2")
HALF_STEP = 2.0**-10


def _dense(rows: int, columns: int, depth: int = 24) -> Any:
    x = relay.var("x", shape=(rows, depth), dtype="float16")
    w = relay.var("w", shape=(columns, depth), dtype="float16")
    product = relay.nn.dense(relay.cast(x, "float32"), relay.cast(w, "float32"))
    return unscheduled(relay.cast(relay.nn.relu(product), "float16"))


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [(8, 16, set()), (8, 32, {0}), (40, 16, {1}), (40, 48, {0, 1})],
)
def test_what_is_multiplied_often_enough(rows: int, columns: int, expected: set[int]) -> None:
    single = as_single(_dense(rows, columns))
    assert single is not None
    info = describe_block(single.func, describe_cpu(TARGET))
    assert converted_apart(single, info) == expected


def test_an_operand_is_converted_in_a_stage_of_its_own_and_the_numbers_stay() -> None:
    scheduled = schedule(_dense(12, 64), TARGET)
    assert scheduled.template == "dot"
    text = str(scheduled.func)
    # The rows once, before; the columns where they are packed.
    assert text.count('T.Cast("float32", x[') == 1
    assert 'T.Cast("float32", x[v_i0, v_k])' not in text
    generator = np.random.default_rng(0)
    x = generator.standard_normal((12, 24)).astype("float16")
    w = generator.standard_normal((64, 24)).astype("float16")
    out = tvm.nd.array(np.zeros((12, 64), "float16"))
    compile_kernel(scheduled.func, TARGET, "kernel")(tvm.nd.array(x), tvm.nd.array(w), out)
    exact = np.maximum(x.astype("float64") @ w.astype("float64").T, 0).astype("float16")
    assert_close([out.numpy()], [exact], HALF_STEP)
