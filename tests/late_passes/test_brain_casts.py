from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tvm import relay, tir

import tvm_fusionx as fx
from tests.relay_modules import TARGET, module, var
from tvm_fusionx.late_passes.brain_casts import by_bits
from tvm_fusionx.tir.brain_floats import BRAIN


def _cast(source: str, target: str) -> str:
    return str(by_bits(tir.Cast(target, tir.Var("x", source))))


@pytest.mark.parametrize(
    ("source", "target", "parts"),
    [
        (BRAIN, "float32", ["shift_left", 'reinterpret("float32"']),
        (BRAIN, "int32", ['Cast("int32", T.reinterpret("float32"', "shift_left"]),
        ("float32", BRAIN, ['reinterpret("bfloat16"', "shift_right"]),
        ("int64", BRAIN, ['Cast("float32"', 'reinterpret("bfloat16"']),
        ("bfloat16x4", "float32x4", ['reinterpret("float32x4"']),
        ("int32x4", "bfloat16x4", ['Cast("float32x4"', 'reinterpret("bfloat16x4"']),
    ],
)
def test_a_cast_becomes_arithmetic_of_bits(source: str, target: str, parts: list[str]) -> None:
    text = _cast(source, target)
    assert all(part in text for part in parts), text


@pytest.mark.parametrize(("source", "target"), [("float16", "float32"), (BRAIN, BRAIN)])
def test_other_casts_stay(source: str, target: str) -> None:
    assert by_bits(tir.Cast(target, tir.Var("x", source))) is None


def test_what_is_moved_in_two_steps_keeps_its_numbers() -> None:
    places = [np.array([3, 0, 2, 2, 1, 0], "int32"), np.array([1, 0, 0, 1], "int32")]
    taken = var("x", 4, 2, 7, 3, dtype=BRAIN)
    for axis, each in enumerate(places):
        taken = relay.take(taken, relay.const(each), axis=axis)
    mod = module(relay.layout_transform(taken, "NCHW", "NCHW4c"))
    x = np.arange(168).reshape(4, 2, 7, 3).astype(ml_dtypes.bfloat16)
    (found,) = fx.build(mod, TARGET, executor="vm").run(x=x)
    np.testing.assert_array_equal(found[:, 0].transpose(0, 3, 1, 2), x[places[0]][:, places[1]])
