from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

from tvm_fusionx.late_passes.shuffle_bytes import shuffle_bytes
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.integers import ByteTables, byte_tables_of
from tvm_fusionx.schedules import resolve_target

HERE = "llvm -mcpu=native"
TABLES = byte_tables_of({"avx512vbmi"})


def _looking_up(lanes: int, kind: str = "uint8") -> Any:
    data, table = te.placeholder((lanes,), kind, "data"), te.placeholder((256,), "int8", "table")

    def entry(i: Any) -> Any:
        bits = data[i] if kind == "uint8" else tvm.tir.reinterpret("uint8", data[i])
        return table[bits.astype("int32")]

    result = te.compute((lanes,), entry)
    schedule = tvm.tir.Schedule(te.create_prim_func([data, table, result]))
    schedule.vectorize(schedule.get_loops(schedule.get_block(result.op.name))[0])
    return schedule.mod


# Looks words up, and runs where 512-bit vectors do.
WORDS = "llvm -mcpu=cascadelake"
TARGETS = [HERE, WORDS] if describe_cpu(resolve_target(HERE)).lanes == 16 else [HERE]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("lanes", "kind"),
    [
        (4, "uint8"),
        (8, "uint8"),
        (32, "int8"),
        (12, "int8"),
        (16, "int8"),
        (16, "uint8"),
        (64, "uint8"),
    ],
)
def test_every_byte_finds_its_entry(lanes: int, kind: str, target: str) -> None:
    target = resolve_target(target)
    kernel = compile_kernel(_looking_up(lanes, kind)["main"], target, "kernel")
    table = np.random.default_rng(0).integers(-128, 128, 256).astype("int8")
    bits = np.random.default_rng(1).permutation(256).astype("uint8")
    for start in range(0, 256 - lanes + 1, lanes):
        part = bits[start : start + lanes]
        held = [tvm.nd.array(each) for each in (part.view(kind), table, np.zeros(lanes, "int8"))]
        kernel["kernel"](*held)
        assert np.array_equal(held[2].numpy(), table[part])


@pytest.mark.parametrize(
    ("features", "lanes", "shuffles"),
    [
        *(("avx512vbmi", lanes, shuffles) for lanes, shuffles in ((4, 2), (64, 2), (12, 0))),
        *(("avx512f", lanes, shuffles) for lanes, shuffles in ((8, 2), (16, 2), (64, 0))),
    ],
)
def test_whole_vectors_are_shuffled(features: str, lanes: int, shuffles: int) -> None:
    assert _shuffles({features}, lanes) == shuffles


@pytest.mark.parametrize(("lanes", "shuffles"), [(8, 4), (32, 4), (16, 2), (64, 2)])
def test_short_vectors_are_looked_up_in_halves_of_registers(lanes: int, shuffles: int) -> None:
    assert _shuffles({"avx512vbmi", "avx512vl"}, lanes) == shuffles


def _shuffles(features: set[str], lanes: int) -> int:
    lowered = tvm.lower(_looking_up(lanes))
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.tir.Call) and node.op.name == "tir.call_llvm_pure_intrin":
            found.append(node)

    tvm.tir.stmt_functor.post_order_visit(
        shuffle_bytes(byte_tables_of(features))(lowered)["main"].body, visit
    )
    return len(found)


def test_nothing_changes_where_bytes_are_loaded_one_by_one() -> None:
    lowered = tvm.lower(_looking_up(16))
    for tables in (None, byte_tables_of({"neon"})):
        assert tvm.ir.structural_equal(shuffle_bytes(tables)(lowered), lowered)


def test_which_processors_look_bytes_up() -> None:
    def tables(target: str) -> ByteTables | None:
        return describe_cpu(resolve_target(target)).byte_tables

    assert tables("llvm -mcpu=icelake-server") == byte_tables_of({"avx512vbmi", "avx512vl"})
    assert tables(WORDS) == byte_tables_of({"avx512f"})
    assert tables("llvm -mcpu=haswell") is None
    arm = tables("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76")
    assert arm is not None
    assert arm.instruction is None
