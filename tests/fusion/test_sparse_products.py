"""What the planner puts into the kernel of a sparse product: what follows it, and a gate before."""

from __future__ import annotations

from typing import Any

from tvm import relay

from tests.relay_modules import blocks_of, module, operator_names, var
from tests.schedules.sparse_blocks import Window, dense, pruned, window
from tvm_fusionx.passes import FuseByMapping

TARGET = "llvm -mcpu=znver4"
PIXELS = Window(1, 32, 32, 28, 28, kernel=1, padding=(0, 0, 0, 0), lanes=16)


def _blocks(body: Any) -> list[list[str]]:
    fused = FuseByMapping(TARGET)(module(body))
    return [sorted(operator_names(block.body)) for block in blocks_of(fused)]


def test_what_follows_is_fused() -> None:
    body, _ = dense(16, pruned(64, 64, 16, 0.2), 16, 16)
    after = relay.sigmoid(relay.nn.bias_add(body, var("b", 64)) + var("residual", 16, 64))
    assert _blocks(after) == [["add", "fusionx.sparse_dense", "nn.bias_add", "sigmoid"]]


def test_a_gate_is_computed_as_pixels_are_turned() -> None:
    x, gate = var("x", 1, 2, 28, 28, 16), var("gate", 1, 2, 1, 1, 16)
    body, _ = window(PIXELS, pruned(32, 32, 16, 0.3), 16, 16, relay.nn.relu, data=x * gate)
    assert _blocks(body) == [["fusionx.sparse_conv2d_NCHWc", "multiply", "nn.relu"]]


def test_two_that_follow_each_other_are_two_kernels() -> None:
    weight = pruned(32, 32, 16, 0.3)
    first, _ = window(PIXELS, weight, 16, 16, relay.nn.relu)
    second, _ = window(PIXELS, weight, 16, 16, relay.nn.relu, data=first)
    assert _blocks(second) == [["fusionx.sparse_conv2d_NCHWc", "nn.relu"]] * 2
