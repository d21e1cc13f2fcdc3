"""bfloat16 as bits: every number of the type, and what is rounded to it."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tir

from tvm_fusionx.report.bench.stored_numbers import numbers_of, stored
from tvm_fusionx.tir.brain_floats import bits_of, is_brain, narrow_of, narrowed, widened

LANES = 16


def _cast(array: tvm.nd.NDArray, dtype: str, lanes: int) -> np.ndarray:
    """Return an array cast between float32 and bfloat16, in vectors of so many lanes."""
    count = array.shape[0]
    x = tir.decl_buffer((count,), array.dtype, "x")
    y = tir.decl_buffer((count,), dtype, "y")
    i = tir.Var("i", "int32")
    place = i if lanes == 1 else tir.Ramp(i * lanes, 1, lanes)
    load = tir.BufferLoad(x, [place])
    store = tir.BufferStore(y, widened(load) if is_brain(array.dtype) else narrowed(load), [place])
    params = [tir.Var("a", "handle"), tir.Var("b", "handle")]
    loop = tir.For(i, 0, count // lanes, tir.ForKind.SERIAL, store)
    func = tir.PrimFunc(params, loop, None, dict(zip(params, (x, y), strict=True)))
    kernel = tvm.build(func.with_attr("global_symbol", "cast"), target="llvm")
    result = tvm.nd.empty((count,), dtype)
    kernel(array, result)
    return numbers_of(result)


@pytest.mark.parametrize("lanes", [1, LANES])
def test_every_bfloat16_is_widened_exactly(lanes: int) -> None:
    bits = np.arange(1 << 16, dtype="uint32").astype("uint16")
    raw = tvm.nd.empty(bits.shape, "bfloat16")
    raw.copyfrom(bits)
    expected = (bits.astype("uint32") << 16).view("float32")
    found = _cast(raw, "float32", lanes)
    np.testing.assert_array_equal(found.view("uint32"), expected.view("uint32"))


@pytest.mark.parametrize("lanes", [1, LANES])
def test_float32_is_rounded_as_constants_are(lanes: int) -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 14, "uint32")
    # Middles between two neighbours, and what lies beside them.
    beside = (bits & 0xFFFF0000) + np.resize(np.uint32([0x7FFF, 0x8000, 0x8001]), bits.shape)
    special = np.float32([0, -0.0, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, 1])
    numbers = np.concatenate([bits.view("float32"), beside.view("float32"), np.resize(special, 64)])
    found = _cast(tvm.nd.array(numbers), "bfloat16", lanes)
    expected = numbers_of(stored(numbers, "bfloat16"))
    np.testing.assert_array_equal(found, expected)
    signed = ~np.isnan(numbers)
    np.testing.assert_array_equal(np.signbit(found[signed]), np.signbit(numbers[signed]))


def test_no_number_stays_none_whatever_its_bits() -> None:
    bits = np.resize(np.uint32([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0x7FC00000]), LANES)
    assert np.isnan(_cast(tvm.nd.array(bits.view("float32")), "bfloat16", LANES)).all()


@pytest.mark.parametrize("lanes", [1, LANES])
@pytest.mark.parametrize("dtype", ["bfloat16", "uint16"])
def test_what_was_widened_is_found(dtype: str, lanes: int) -> None:
    buffer = tir.decl_buffer((LANES,), dtype, "x")
    load = tir.BufferLoad(buffer, [0 if lanes == 1 else tir.Ramp(0, 1, lanes)])
    assert narrow_of(widened(load)).same_as(load)
    assert str(bits_of(load).dtype).startswith("uint16")


def test_what_was_not_widened_is_none() -> None:
    single = tir.BufferLoad(tir.decl_buffer((1,), "float32", "x"), [0])
    words = tir.BufferLoad(tir.decl_buffer((1,), "uint32", "y"), [0])
    computed = widened(narrowed(single))
    for each in (single, computed, tir.call_intrin("float32", "tir.reinterpret", words)):
        assert narrow_of(each) is None


def test_types_with_lanes_are_known() -> None:
    assert is_brain("bfloat16x8")
    assert is_brain("bfloat16")
    assert not is_brain("float16")
