"""Sums are rounded to bytes several registers at a time, and looked up together: x86."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.late_passes.halves_in_pairs import lowered
from tvm_fusionx.expressions.round_even import register_rounding
from tvm_fusionx.late_passes.context import ADD_LOWER_PASS, AFTER_LOWERING
from tvm_fusionx.late_passes.pack_to_bytes import pack_to_bytes
from tvm_fusionx.late_passes.shuffle_bytes import shuffle_bytes
from tvm_fusionx.late_passes.small_buffers_on_stack import keep_small_buffers_on_stack
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.processors.targets import resolve_target

ROWS, WIDE = 3, 256
LOOKED_UP, WIDENED = "looked up", "widened"

HERE = describe_cpu(resolve_target("llvm -mcpu=native"))
# Ordered by what they need; one that narrows in more widths than this machine has instructions for
# it.
CORES = ("haswell", "skylake-avx512", "icelake-server")


def _cpu(core: str) -> Cpu:
    return describe_cpu(resolve_target(f"llvm -mcpu={core}"))


def _runs_here(core: str) -> bool:
    cpu = _cpu(core)
    has_tables = cpu.byte_tables is None or (
        HERE.byte_tables is not None
        and HERE.byte_tables.element_bytes <= cpu.byte_tables.element_bytes
    )
    return set(cpu.packings) <= set(HERE.packings) and has_tables


def _lines(
    starts: Sequence[int],
    dtype: str,
    *,
    lanes: int,
    zero: int = 0,
    bounds: tuple[int, int] | None = None,
    then: Sequence[str] = (),
    upper_last: bool = False,
) -> Any:
    """Return a function that quantizes a vector at each of `starts`, in each of some rows.

    `then` says whether bytes are looked up, and whether they are made floats again; `upper_last`
    whether the upper bound is applied after the lower one.
    """
    register_rounding()
    low, high = bounds or (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = tir.decl_buffer((ROWS * WIDE,), "float32", "x")
    table = tir.decl_buffer((256,), "int8", "table")
    stored = "int8" if LOOKED_UP in then else dtype
    y = tir.decl_buffer((ROWS * WIDE,), "float32" if WIDENED in then else stored, "y")

    def number(value: float) -> Any:
        return tir.const(value, "float32")

    ib = tir.ir_builder.create()
    with ib.for_range(0, ROWS, "row") as row:
        for start in starts:
            with ib.for_range(0, lanes, "lane", kind="vectorize") as lane:
                place = row * WIDE + start + lane
                value = tir.nearbyint(tir.BufferLoad(x, [place]))
                value = value + number(zero) if zero else value
                if upper_last:
                    value = tir.Min(tir.Max(value, number(low)), number(high))
                else:
                    value = tir.Max(tir.Min(value, number(high)), number(low))
                made = tir.Cast(dtype, value)
                if LOOKED_UP in then:
                    made = tir.BufferLoad(table, [tir.Cast("int32", made)])
                if WIDENED in then:
                    made = tir.Cast("float32", made) * number(2)
                ib.emit(tir.BufferStore(y, made, [place]))
    return tir.PrimFunc([x, table, y], ib.get())


def _passes(cpu: Cpu) -> list[Any]:
    return [
        pack_to_bytes(cpu.packings, cpu.byte_tables),
        shuffle_bytes(cpu.byte_tables),
        keep_small_buffers_on_stack(),
    ]


def _built(func: Any, core: str) -> Any:
    config = {ADD_LOWER_PASS: [(AFTER_LOWERING, each) for each in _passes(_cpu(core))]}
    with tvm.transform.PassContext(opt_level=3, config=config):
        return tvm.build(func, target=f"llvm -mcpu={core}")


def _instructions(func: Any, core: str) -> Counter[str]:
    found = re.findall(r"^\t([a-z]\w*)", _built(func, core).get_source("asm"), re.M)
    return Counter(found)


def _lanes_stored(func: Any) -> list[int]:
    found: list[int] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferStore) and node.buffer.name == "y":
            found.append(int(node.indices[0].lanes))

    tir.stmt_functor.post_order_visit(func.body, visit)
    return sorted(found)


@pytest.mark.parametrize(
    ("core", "lanes", "number", "stored"),
    [
        ("haswell", 8, 4, [32]),
        ("haswell", 8, 7, [8, 16, 32]),
        ("haswell", 4, 8, [32]),
        ("icelake-server", 8, 12, [32, 64]),
        ("icelake-server", 16, 4, [64]),
        ("icelake-server", 16, 3, [16, 32]),
    ],
)
def test_neighbours_are_one_store(core: str, lanes: int, number: int, stored: list[int]) -> None:
    func = _lines([lanes * each for each in range(number)], "uint8", lanes=lanes)
    cpu = _cpu(core)
    assert _lanes_stored(lowered(func, *_passes(cpu))) == stored


def test_others_than_neighbours_stay_apart() -> None:
    func = _lines([0, 16, 24, 64], "uint8", lanes=8)
    assert _lanes_stored(lowered(func, *_passes(_cpu("icelake-server")))) == [8, 8, 16]


def test_what_is_computed_from_bytes_is_stored_where_it_was() -> None:
    func = _lines([0, 8, 16, 24], "uint8", lanes=8, then=(LOOKED_UP, WIDENED))
    changed = lowered(func, *_passes(_cpu("icelake-server")))
    assert _lanes_stored(changed) == [8, 8, 8, 8]


@pytest.mark.parametrize(("lanes", "instructions"), [(8, 4), (16, 2)])
def test_a_register_of_bytes_is_looked_up_at_once(lanes: int, instructions: int) -> None:
    func = _lines(range(0, 4 * lanes, lanes), "uint8", lanes=lanes, then=(LOOKED_UP,))
    code = _instructions(func, "icelake-server")
    # LLVM makes one of two halves that lie side by side.
    looked_up = code["vpermi2b"] + code["vpermt2b"] + code["vpermb"]
    assert looked_up * 4 == instructions * code["vcvtps2dq"]
    assert not {"vroundps", "vrndscaleps", "vpmovdw", "vpmovdb"} & set(code)


def test_four_vectors_are_three_narrowings() -> None:
    code = _instructions(_lines([0, 8, 16, 24], "uint8", lanes=8, zero=3), "haswell")
    wanted = {"vcvtps2dq": 4, "vpackssdw": 2, "vpackuswb": 1, "vpaddsw": 2}
    # LLVM may write rows out.
    assert {each: code[each] / code["vpackuswb"] for each in wanted} == wanted
    assert not {"vroundps", "vmaxps"} & set(code)


@pytest.mark.parametrize("bounds", [(-128, 128), (3, 2)])
def test_bounds_that_are_none_of_bytes_stay(bounds: tuple[int, int]) -> None:
    func = _lines([0, 8], "int8", lanes=8, bounds=bounds)
    assert tvm.ir.structural_equal(lowered(func, *_passes(_cpu("haswell"))), lowered(func))


def test_an_upper_bound_applied_last_makes_another_byte_of_no_number() -> None:
    func = _lines([0, 8], "int8", lanes=8, upper_last=True)
    assert tvm.ir.structural_equal(lowered(func, *_passes(_cpu("haswell"))), lowered(func))


def test_a_line_that_reads_what_it_stores_is_packed_one_by_one() -> None:
    register_rounding()
    y = tir.decl_buffer((64,), "uint8", "y")
    ib = tir.ir_builder.create()
    for start in (0, 8):
        more = tir.Cast("float32x8", tir.BufferLoad(y, [tir.Ramp(8 - start, 1, 8)]))
        value = tir.nearbyint(more * tir.Broadcast(tir.const(1.5, "float32"), 8))
        low, high = (tir.Broadcast(tir.const(each, "float32"), 8) for each in (0, 255))
        value = tir.Cast("uint8x8", tir.Max(tir.Min(value, high), low))
        ib.emit(tir.BufferStore(y, value, [tir.Ramp(start, 1, 8)]))
    func = tir.PrimFunc([y], ib.get())
    assert _lanes_stored(lowered(func, *_passes(_cpu("haswell")))) == [8, 8]


def test_what_is_read_between_is_not_read_later() -> None:
    """The second store changes what the first one adds to its bytes."""
    register_rounding()
    x, y, z = (tir.decl_buffer((64,), "float32", name) for name in "xyz")
    ib = tir.ir_builder.create()
    for start in (0, 8):
        place = tir.Ramp(start, 1, 8)
        value = tir.nearbyint(tir.BufferLoad(x, [place]))
        low, high = (tir.Broadcast(tir.const(each, "float32"), 8) for each in (0, 255))
        value = tir.Cast("uint8x8", tir.Max(tir.Min(value, high), low))
        added = tir.Cast("float32x8", value) + tir.BufferLoad(z, [tir.Ramp(0, 1, 8)])
        ib.emit(tir.BufferStore(y, added, [place]))
        ib.emit(tir.BufferStore(z, tir.Broadcast(tir.const(1.0, "float32"), 8), [place]))
    func = tir.PrimFunc([x, y, z], ib.get())
    stored = [
        each.buffer.name for each in _stores(lowered(func, pack_to_bytes(HERE.packings, None)).body)
    ]
    assert stored == ["y", "z", "y", "z"]


def test_a_temporary_is_read_before_it_is_written_again() -> None:
    """Bytes are rounded from it, and what is computed from them reads it once more."""
    register_rounding()
    x, y, z = (tir.decl_buffer((64,), "float32", name) for name in "xyz")
    ib = tir.ir_builder.create()
    again = tir.Ramp(0, 1, 8)
    for start in (0, 8):
        place = tir.Ramp(start, 1, 8)
        ib.emit(tir.BufferStore(z, tir.BufferLoad(x, [place]), [again]))
        value = tir.nearbyint(tir.BufferLoad(z, [again]))
        low, high = (tir.Broadcast(tir.const(each, "float32"), 8) for each in (0, 255))
        value = tir.Cast("uint8x8", tir.Max(tir.Min(value, high), low))
        added = tir.Cast("float32x8", value) + tir.BufferLoad(z, [again])
        ib.emit(tir.BufferStore(y, added, [place]))
    func = tir.PrimFunc([x, y, z], ib.get())
    changed = lowered(func, pack_to_bytes(_cpu("haswell").packings, None))
    assert [each.buffer.name for each in _stores(changed.body)] == ["z", "y", "z", "y"]


def test_a_table_that_is_written_meanwhile_is_read_before() -> None:
    register_rounding()
    x = tir.decl_buffer((64,), "float32", "x")
    table, y = (tir.decl_buffer((size,), "int8", name) for size, name in ((256, "t"), (64, "y")))
    ib = tir.ir_builder.create()
    low, high = (tir.const(each, "float32") for each in (0, 255))
    for start in (0, 8):
        with ib.for_range(0, 8, "lane", kind="vectorize") as lane:
            value = tir.nearbyint(tir.BufferLoad(x, [start + lane]))
            value = tir.Cast("uint8", tir.Max(tir.Min(value, high), low))
            found = tir.BufferLoad(table, [tir.Cast("int32", value)])
            ib.emit(tir.BufferStore(y, found, [start + lane]))
        ib.emit(tir.BufferStore(table, tir.const(start, "int8"), [start]))
    func = tir.PrimFunc([x, y, table], ib.get())
    cpu = _cpu("icelake-server")
    changed = lowered(func, pack_to_bytes(cpu.packings, cpu.byte_tables))
    assert [each.buffer.name for each in _stores(changed.body)] == ["y", "t", "y", "t"]


def _stores(body: Any) -> list[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferStore):
            found.append(node)

    tir.stmt_functor.post_order_visit(body, visit)
    return found


def test_processors_without_such_instructions_keep_their_code() -> None:
    assert _cpu("nehalem").packings == ()
    func = _lines([0, 4], "int8", lanes=4)
    assert tvm.ir.structural_equal(lowered(func, pack_to_bytes((), None)), lowered(func))


def _numbers() -> np.ndarray:
    """Return halves, what the types end at, and what 16 and 32 bits do not hold."""
    generator = np.random.default_rng(0)
    x = (generator.standard_normal(ROWS * WIDE) * 150).astype("float32")
    x[::3] = np.round(x[::3]) + 0.5
    edges = [0.5, 1.5, -0.5, -1.5, 254.5, 255.5, -128.5, 127.5, 32767.5, -32769, 65536.0, -65537.0]
    far = [2.0**31, -(2.0**31), 3e9, -3e9, 1e30, -1e30, np.inf, -np.inf, 1e-30, -0.0]
    x[: len(edges + far)] = edges + far
    return x


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    ("starts", "dtype", "lanes", "zero", "bounds"),
    [
        (range(0, 96, 8), "uint8", 8, 0, None),
        (range(0, 96, 8), "int8", 8, -7, None),
        ([0, 8, 24, 32, 40, 56], "uint8", 8, 131, None),
        (range(0, 28, 4), "uint8", 4, 16384, None),
        ([0, 8, 16], "int8", 4, 0, (-127, 100)),
        (range(0, 112, 16), "uint8", 16, 5, (5, 200)),
        (range(0, 96, 16), "int8", 16, 0, None),
        ([0, 64], "uint8", 64, 3, None),
    ],
)
@pytest.mark.parametrize("then", [(), (LOOKED_UP,), (WIDENED,), (LOOKED_UP, WIDENED)])
def test_numbers_are_the_same(
    core: str,
    starts: Sequence[int],
    dtype: str,
    lanes: int,
    zero: int,
    bounds: tuple[int, int] | None,
    then: tuple[str, ...],
) -> None:
    if not _runs_here(core):
        pytest.skip(f"this processor has not all instructions of {core}")
    if LOOKED_UP in then and dtype != "uint8":
        dtype = "uint8"
        zero, bounds = 128 + zero, None
    x, table = _numbers(), np.random.default_rng(1).permutation(256).astype("uint8").view("int8")
    func = _lines(starts, dtype, lanes=lanes, zero=zero, bounds=bounds, then=then)
    kinds = {True: "float32", False: "int8" if LOOKED_UP in then else dtype}
    y = tvm.nd.array(np.full(x.shape, 7, kinds[WIDENED in then]))
    _built(func, core)(tvm.nd.array(x), tvm.nd.array(table), y)
    low, high = bounds or (np.iinfo(dtype).min, np.iinfo(dtype).max)
    made = np.clip(np.rint(x.astype("float64")) + zero, low, high).astype(dtype)
    made = table[made] if LOOKED_UP in then else made
    made = made.astype("float32") * 2 if WIDENED in then else made
    expected = np.full(x.shape, 7, kinds[WIDENED in then])
    for row in range(ROWS):
        for start in starts:
            at = slice(row * WIDE + start, row * WIDE + start + lanes)
            expected[at] = made[at]
    np.testing.assert_array_equal(y.numpy(), expected)
