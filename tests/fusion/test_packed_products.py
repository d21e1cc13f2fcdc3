"""Products with packed weights have a kernel each, however small they are."""

from __future__ import annotations

from tvm import relay

from tests.relay_modules import blocks_of, module, operator_names, var
from tests.schedules.packed_blocks import drawn
from tvm_fusionx.expressions.block_weights import dense
from tvm_fusionx.passes import FuseByMapping, PackLayouts


def test_two_that_follow_each_other_are_two_kernels() -> None:
    weights = [
        [relay.const(part, str(part.dtype)) for part in drawn("Q4_0", 32, 32, seed).arrays]
        for seed in (0, 1)
    ]
    mod = module(
        relay.sigmoid(dense(relay.sigmoid(dense(var("x", 1, 32), weights[0])), weights[1]))
    )
    fused = FuseByMapping("llvm")(PackLayouts("llvm")(mod))
    found = [operator_names(block.body) for block in blocks_of(fused)]
    assert found == [["fusionx.block_dense", "sigmoid"]] * 2
