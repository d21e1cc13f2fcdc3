"""Statements on tiles, and the question that stands before them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.schedules.byte_blocks import TILES, needs_tiles
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.tile_permission import REFUSED
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.tir import tile_calls
from tvm_fusionx.tir.root_block import with_root
from tvm_fusionx.tir.tile_calls import TileRegisters, asking_first

ROWS, TERMS, COLUMNS = 3, 8, 16


def _product() -> tvm.tir.PrimFunc:
    """Return the product of one tile by one."""
    tiles = describe_cpu(resolve_target(TILES)).tiles
    assert tiles is not None
    data = tir.decl_buffer((ROWS, TERMS), "uint8", "data")
    weights = tir.decl_buffer((TERMS // 4, COLUMNS, 4), "int8", "weights")
    result = tir.decl_buffer((ROWS, COLUMNS), "int32", "result")
    ib = tir.ir_builder.create()
    registers = TileRegisters(ib, tiles)
    registers.configure({0: (ROWS, 64), 1: (ROWS, TERMS), 2: (TERMS // 4, 64)})
    registers.clear(0)
    registers.load(1, data, [0, 0], TERMS)
    registers.load(2, weights, [0, 0, 0], 64)
    registers.multiply("llvm.x86.tdpbusd", 0, 1, 2)
    registers.store(0, result, [0, 0], 64)
    registers.release()
    buffers = {tir.Var(each.name, "handle"): each for each in (data, weights, result)}
    func = tir.PrimFunc([*buffers], asking_first(ib.get()), buffer_map=buffers)
    regions = [
        tir.BufferRegion(each, [tvm.ir.Range(0, extent) for extent in each.shape])
        for each in buffers.values()
    ]
    block = tir.Block([], regions[:2], regions[2:], "product", func.body)
    realize = tir.BlockRealize([], tir.const(True, "bool"), block)
    root = tir.BlockRealize([], tir.const(True, "bool"), tir.Block([], [], [], "root", realize))
    return with_root(func.with_body(root), realize, [])


def _arrays() -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [
        generator.integers(0, 256, (ROWS, TERMS)).astype("uint8"),
        generator.integers(-128, 128, (TERMS // 4, COLUMNS, 4)).astype("int8"),
        np.zeros((ROWS, COLUMNS), "int32"),
    ]


@needs_tiles
def test_a_product_of_tiles() -> None:
    arrays = _arrays()
    held = [tvm.nd.array(each) for each in arrays]
    compile_kernel(_product(), resolve_target("llvm -mcpu=native"), "kernel")["kernel"](*held)
    columns = arrays[1].transpose(0, 2, 1).reshape(TERMS, COLUMNS).astype("int32")
    assert np.array_equal(held[2].numpy(), arrays[0].astype("int32") @ columns)


@needs_tiles
def test_a_system_that_lends_no_tiles_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel asks for registers that no processor has, and none of its instructions runs."""
    changed = tile_calls._FUNCTIONS.replace(f"i64 {tile_calls.TILE_DATA})", "i64 63)")
    assert changed != tile_calls._FUNCTIONS
    monkeypatch.setattr(tile_calls, "_FUNCTIONS", changed)
    kernel = compile_kernel(_product(), resolve_target("llvm -mcpu=native"), "kernel")["kernel"]
    arrays = [tvm.nd.array(each) for each in _arrays()]
    for _ in range(2):
        with pytest.raises(tvm.TVMError) as refused:
            kernel(*arrays)
        assert REFUSED in str(refused.value)
    assert not arrays[2].numpy().any()


def test_code() -> None:
    text = compile_kernel(_product(), resolve_target(TILES), "kernel").get_source("asm")
    for word in ("syscall", "ldtilecfg", "tilezero", "tileloadd", "tdpbusd", "tilerelease"):
        assert word in text
