"""Blocks whose tensors lie in memory in 16 bits, and whose schedules are those of float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, tir
from tvm.script import tir as T  # noqa: N812 - TVM's own spelling of its script

import tvm_fusionx as fx
from tests.relay_modules import TARGET, module, var
from tests.schedules.blocked_blocks import unscheduled
from tests.verified_kernels import assert_kernel
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.tir.root_block import nests_of
from tvm_fusionx.tir.stored_types import as_single, in_memory

HALF, SINGLE = "float16", "float32"
# What is rounded right may be either of two neighbours.
STEP = 2.0**-10


def _half(name: str, *shape: int) -> relay.Var:
    return var(name, *shape, dtype=HALF)


def _wide(x: relay.Expr) -> relay.Expr:
    return relay.cast(x, SINGLE)


def _stored(x: relay.Expr) -> relay.Expr:
    return relay.cast(x, HALF)


def _dtypes(func: Any) -> list[str]:
    """Return the types of the parameters, in order."""
    return [str(func.buffer_map[param].dtype) for param in func.params]


def _product() -> relay.Expr:
    return _stored(
        relay.nn.relu(relay.nn.dense(_wide(_half("x", 4, 16)), _wide(_half("w", 8, 16))))
    )


def test_casts_beside_parameters_are_how_they_lie_in_memory() -> None:
    single = as_single(unscheduled(_product()))
    assert single is not None
    assert single.stored == {0: HALF, 1: HALF, 2: HALF}
    x, w = var("x", 4, 16), var("w", 8, 16)
    wide = unscheduled(relay.nn.relu(relay.nn.dense(x, w)))
    assert "Cast" not in single.func.script()
    assert _dtypes(single.func) == [SINGLE] * 3
    assert len(nests_of(single.func)) == len(nests_of(wide))


def test_a_block_of_float32_has_nothing_to_put_back() -> None:
    assert as_single(unscheduled(relay.nn.relu(var("x", 4, 16)))) is None


def test_the_schedule_is_that_of_the_float32_block() -> None:
    target = resolve_target(TARGET)
    made = schedule(unscheduled(_product()), target)
    x, w = var("x", 4, 16), var("w", 8, 16)
    wide = schedule(unscheduled(relay.nn.relu(relay.nn.dense(x, w))), target)
    assert (made.template, made.knobs) == (wide.template, wide.knobs)
    assert _dtypes(made.func) == [HALF] * 3
    text = made.func.script()
    assert text.count('T.Cast("float32", ') == 2
    assert text.count('T.Cast("float16", ') == 1
    assert text.count("alloc_buffer") == wide.func.script().count("alloc_buffer")


def _numbers(*shape: int, seed: int = 0, of: str = HALF) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(of)


def _assert_computes(
    body: relay.Expr, inputs: list[np.ndarray], expected: list[np.ndarray], *, template: str = ""
) -> Any:
    target = resolve_target(TARGET)
    made = schedule(unscheduled(body), target)
    assert not template or made.template == template
    assert_kernel(made.func, target, inputs, expected, STEP)
    return made.func


def test_a_product_is_summed_up_in_float32() -> None:
    x, w = _numbers(4, 16), _numbers(8, 16, seed=1)
    expected = np.maximum(x.astype(SINGLE) @ w.astype(SINGLE).T, 0).astype(HALF)
    _assert_computes(_product(), [x, w], [expected])


def test_a_result_that_a_schedule_sums_up_in_is_stored_apart() -> None:
    @T.prim_func
    def summed(a: T.handle, b: T.handle) -> None:
        x = T.match_buffer(a, (64,), SINGLE)
        y = T.match_buffer(b, (1,), SINGLE)
        for i in range(64):
            with T.block("sum"):
                k = T.axis.reduce(64, i)
                with T.init():
                    y[0] = T.float32(0)
                y[0] = y[0] + x[k]

    assert in_memory(summed, {0: HALF, 1: HALF}) is None
    kept = in_memory(summed, {0: HALF})
    assert kept is not None
    assert _dtypes(kept) == [HALF, SINGLE]


def test_a_sum_of_many_halves_is_right_whatever_the_schedule() -> None:
    for axis, shape in ((1, (3, 4096)), (0, (4096, 3))):
        x = np.full(shape, 20, HALF)
        body = _stored(relay.sum(_wide(_half("x", *shape)), axis=axis) / relay.const(64.0))
        _assert_computes(body, [x], [np.full(3, 1280, HALF)])
        alone = _stored(relay.sum(_wide(_half("x", *shape)) * relay.const(0.5), axis=axis))
        _assert_computes(alone, [x], [np.full(3, 40960, HALF)])


def test_what_another_stage_reads_stays_as_exact_as_it_is_computed() -> None:
    x = _half("x", 4, 64)
    squares = _wide(x) * _wide(x)
    # 300 * 300 is beyond a half, and the mean of its root is not.
    body = relay.Tuple([_stored(squares), _stored(relay.sqrt(relay.mean(squares, axis=1)))])
    single = as_single(unscheduled(body))
    assert single is not None
    assert single.stored == {0: HALF, 1: HALF, 2: HALF}
    given = np.full((4, 64), 300, HALF)
    with np.errstate(over="ignore"):
        expected = [np.full((4, 64), np.inf, HALF), np.full(4, 300, HALF)]
    _assert_computes(body, [given], expected)


def test_results_of_several_types() -> None:
    x = _half("x", 8, 32)
    body = relay.Tuple(
        [_stored(relay.exp(_wide(x))), relay.tanh(_wide(x)), relay.argmax(_wide(x), axis=1)]
    )
    given = _numbers(8, 32)
    wide = given.astype(SINGLE)
    expected = [np.exp(wide).astype(HALF), np.tanh(wide), wide.argmax(axis=1).astype("int32")]
    func = _assert_computes(body, [given], expected)
    assert _dtypes(func) == [HALF, HALF, SINGLE, "int32"]


def test_a_parameter_that_is_read_as_it_lies_stays_so() -> None:
    x = _half("x", 8, 32)
    body = relay.Tuple([relay.transpose(x), _stored(relay.exp(_wide(x)))])
    single = as_single(unscheduled(body))
    assert single is not None
    assert single.stored == {2: HALF}
    given = _numbers(8, 32)
    _assert_computes(body, [given], [given.T.copy(), np.exp(given.astype(SINGLE)).astype(HALF)])


def test_a_parameter_cast_to_another_type_stays_as_it_lies() -> None:
    body = relay.cast(_half("x", 8, 32), "int32") + var("y", 32, dtype="int32")
    assert as_single(unscheduled(body)) is None
    doubled = _stored(relay.cast(_half("x", 8, 32), "float64") * relay.const(2.0, "float64"))
    assert as_single(unscheduled(doubled)) is None


def test_a_parameter_that_is_cast_twice_is_one() -> None:
    x = _half("x", 8, 32)
    body = _stored(relay.exp(relay.cast(x, SINGLE)) + relay.reshape(_wide(x), (8, 32)))
    single = as_single(unscheduled(body))
    assert single is not None
    assert single.stored == {0: HALF, 1: HALF}


def test_a_result_that_only_moves_is_stored_by_a_stage_of_its_own() -> None:
    """The source of the cast is a parameter: there is nothing to put in the result's place."""
    single = as_single(unscheduled(_stored(var("x", 8, 32))))
    assert single is not None
    assert single.stored == {1: HALF}
    given = _numbers(8, 32, of=SINGLE)
    _assert_computes(_stored(var("x", 8, 32)), [given], [given.astype(HALF)])
    _assert_computes(
        _wide(_half("x", 8, 32)), [given.astype(HALF)], [given.astype(HALF).astype(SINGLE)]
    )


def test_a_result_that_is_a_parameter_in_float32_is_written() -> None:
    x = _half("x", 8, 32)
    wide = _wide(x)
    body = relay.Tuple([wide, _stored(relay.exp(wide))])
    given = _numbers(8, 32)
    expected = [given.astype(SINGLE), np.exp(given.astype(SINGLE)).astype(HALF)]
    func = _assert_computes(body, [given], expected)
    assert _dtypes(func) == [HALF, SINGLE, HALF]


@pytest.mark.parametrize("types", [(HALF, "bfloat16"), ("bfloat16", HALF)])
def test_a_cast_between_two_narrow_types_alone_stays(types: tuple[str, str]) -> None:
    given, wanted = types
    body = relay.cast(relay.cast(var("x", 8, 32, dtype=given), SINGLE), wanted)
    assert as_single(unscheduled(body)) is None
    numbers = _numbers(8, 32).astype(given)
    mod = module(relay.cast(var("x", 8, 32, dtype=given), wanted))
    (found,) = run_once(fx.build(mod, TARGET), {"x": numbers})
    # TVM gives bfloat16 as float32.
    expected = numbers.astype(SINGLE).astype(wanted)
    assert np.array_equal(found.astype(SINGLE), expected.astype(SINGLE))


def test_what_is_stored_apart_has_a_stage_of_its_own() -> None:
    func = unscheduled(_product())
    together, apart = as_single(func), as_single(func, stores_apart=True)
    assert together is not None
    assert apart is not None
    assert len(nests_of(apart.func)) == len(nests_of(together.func)) + 1
    assert apart.stored == together.stored


@pytest.mark.parametrize("dtype", [HALF, "bfloat16"])
def test_addresses_are_those_of_elements_in_memory(dtype: str) -> None:
    @T.prim_func
    def fetched(a: T.handle, b: T.handle) -> None:
        x = T.match_buffer(a, (64,), SINGLE)
        y = T.match_buffer(b, (64,), SINGLE)
        for i in range(64):
            with T.block("copy"):
                k = T.axis.spatial(64, i)
                T.evaluate(
                    T.call_llvm_intrin(
                        "void",
                        "llvm.prefetch.p0",
                        T.uint32(4),
                        T.address_of(x[k]),
                        0,
                        3,
                        1,
                    )
                )
                y[k] = x[k] * T.float32(2)

    found = in_memory(fetched, {0: dtype, 1: HALF})
    assert found is not None
    text = found.script()
    assert "T.address_of(x[k])" in text
    assert text.count("x[k]") == text.count("T.reads(x[k]") + 2
    if dtype == HALF:
        given = np.arange(64).astype(HALF)
        assert_kernel(found, tvm.target.Target("llvm"), [given], [given * 2], 0.0)


def test_vectors_have_the_lanes_they_had() -> None:
    @T.prim_func
    def vectors(a: T.handle, b: T.handle) -> None:
        x = T.match_buffer(a, (64,), SINGLE)
        y = T.match_buffer(b, (64,), SINGLE)
        for i in range(8):
            with T.block("copy"):
                k = T.axis.spatial(8, i)
                y[k * 8 : k * 8 + 8] = x[k * 8 : k * 8 + 8] + T.Broadcast(T.float32(1), 8)

    found = in_memory(vectors, {0: HALF, 1: "bfloat16"})
    assert found is not None
    text = found.script()
    assert 'T.Cast("float32x8", x[' in text
    assert 'T.reinterpret("bfloat16x8", ' in text


def test_a_part_of_a_parameter_lies_as_it_does() -> None:
    @T.prim_func
    def parts(a: T.handle, b: T.handle) -> None:
        x = T.match_buffer(a, (8, 8), SINGLE)
        y = T.match_buffer(b, (8, 8), SINGLE)
        for i in range(8):
            with T.block("row"):
                k = T.axis.spatial(8, i)
                row = T.match_buffer(x[k, 0:8], (8,), SINGLE, offset_factor=1)
                for j in range(8):
                    y[k, j] = row[j]

    given = np.arange(64).astype(HALF).reshape(8, 8)
    for stored, inputs in (({0: HALF}, given), ({1: HALF}, given.astype(SINGLE))):
        found = in_memory(parts, stored)
        assert found is not None
        results = given.astype(HALF if 1 in stored else SINGLE)
        assert_kernel(found, tvm.target.Target("llvm"), [inputs], [results], 0.0)


def test_strides_and_offsets_stay() -> None:
    x = tir.decl_buffer((4, 8), SINGLE, "x", strides=[16, 1])
    y = tir.decl_buffer((4, 8), SINGLE, "y")
    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
    store = tir.BufferStore(y, tir.BufferLoad(x, [i, j]), [i, j])
    inner = tir.For(j, 0, 8, tir.ForKind.SERIAL, store)
    body = tir.For(i, 0, 4, tir.ForKind.SERIAL, inner)
    params = [tir.Var("a", "handle"), tir.Var("b", "handle")]
    func = tir.PrimFunc(params, body, None, dict(zip(params, (x, y), strict=True)))
    found = in_memory(func, {0: HALF})
    assert found is not None
    kept = found.buffer_map[found.params[0]]
    assert (str(kept.dtype), [int(each) for each in kept.strides]) == (HALF, [16, 1])
