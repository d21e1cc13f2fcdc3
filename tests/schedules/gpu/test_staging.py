from __future__ import annotations

from tvm import relay

from tests.relay_modules import var
from tests.schedules.gpu.gpu_blocks import describe
from tests.schedules.matching import emitted
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.staging import fits
from tvm_fusionx.schedules.gpu.tile import GPU_TILE


def test_both_operands_are_read_into_local_memory() -> None:
    info = describe(relay.nn.matmul(var("x", 64, 32), var("w", 32, 64)))
    values = {"tile_x": 4, "tile_y": 4, "items_x": 8, "items_y": 8, "staged": 1, "texture": 0}
    func = emitted(GPU_TILE, info, values)
    shared = [buffer for buffer in func.body.block.alloc_buffers if buffer.scope() == "shared"]
    assert len(shared) == 2


def test_groups_too_large_for_local_memory_read_global_memory() -> None:
    (stage,) = describe(relay.nn.matmul(var("x", 64, 32), var("w", 32, 64))).reductions
    assert fits(stage, 64, 64, Gpu())
    assert not fits(stage, 256, 256, Gpu())
