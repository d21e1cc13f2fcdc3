from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import assert_close
from tests.schedules.blocked_blocks import dense, unscheduled
from tests.schedules.half_blocks import assert_half_kernel, in_16_bits
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import describe_block, describe_cpu, resolve_target, schedule
from tvm_fusionx.schedules.converted_apart import converted_apart
from tvm_fusionx.tir.stored_types import as_single

TARGET = resolve_target("llvm -mcpu=haswell -num-cores=2")
ARM = resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1")
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


def _one_pixel(channels: int) -> Any:
    return dense(16, (5, 7), channels, (1, 1), blocks=(4, 4), post=relay.nn.relu)


def _image(channels: int) -> Any:
    pad = (1, 1, 1, 1)
    return dense(3, (12, 14), channels, (3, 3), strides=(2, 2), padding=pad, blocks=(1, 4))


@pytest.mark.parametrize(
    ("body", "template", "target", "is_apart"),
    [
        (_one_pixel(64), "pointwise", ARM, True),
        (_one_pixel(48), "pointwise", ARM, False),
        (_image(32), "first_layer", ARM, True),
        (_image(16), "first_layer", ARM, False),
    ],
    ids=["pixels", "few channels", "an image", "an image, few channels"],
)
def test_pixels_are_converted_once_for_all_tiles_of_channels(
    body: Any, template: str, target: Any, is_apart: bool
) -> None:
    func = unscheduled(in_16_bits(body, "float16"), target)
    single = as_single(func)
    assert single is not None
    found = converted_apart(single, describe_block(single.func, describe_cpu(target)))
    # The data, not the weights.
    assert found == ({0} if is_apart else set())
    assert schedule(func, target).template == template


@pytest.mark.parametrize(
    ("body", "template"), [(_one_pixel(32), "pointwise"), (_image(16), "first_layer")]
)
def test_kernels_of_converted_pixels_compute_the_same(body: Any, template: str) -> None:
    func = assert_half_kernel(body, "float16", template)
    assert str(func).count('T.Cast("float32"') > 0
