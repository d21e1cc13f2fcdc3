from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tvm_fusionx.frontend import nchwc_blocks
from tvm_fusionx.frontend.nchwc_blocks import (
    DOMAIN,
    LARGE,
    SMALL,
    block_of_machine,
    block_size,
    blocks_of,
    find_block_size,
    plain_weights,
    shown_block,
)

# (outputs, inputs, groups) of a convolution before ONNX Runtime fills blocks up.
FIRST, DEPTHWISE, DENSE, GROUPED = (24, 3, 1), (24, 1, 24), (24, 40, 1), (64, 32, 2)


def blocked(weights: Any, groups: int, block: int) -> tuple[Any, int]:
    """Return weights as ONNX Runtime reorders them, element by element, and the groups."""
    outputs, inputs, height, width = weights.shape
    filled = -(-outputs // block) * block
    is_depthwise = groups > 1 and inputs == 1
    is_apart = is_depthwise or (groups == 1 and inputs < block)
    inner = 1 if is_apart else block
    deep = inputs if is_apart else -(-inputs // block) * block
    memory = np.zeros((filled // block, deep // inner, height, width, inner, block), "float32")
    for o, i in np.ndindex(outputs, inputs):
        memory[o // block, i // inner, :, :, i % inner, o % block] = weights[o, i]
    return memory.reshape(filled, deep, height, width), filled if is_depthwise else groups


def weights_of(outputs: int, inputs: int, size: int = 3) -> Any:
    generator = np.random.default_rng(0)
    return generator.standard_normal((outputs, inputs, size, size)).astype("float32")


@pytest.mark.parametrize("block", [SMALL, LARGE])
@pytest.mark.parametrize(("outputs", "inputs", "groups"), [FIRST, DEPTHWISE, DENSE, GROUPED])
def test_weights_come_back_in_order(outputs: int, inputs: int, groups: int, block: int) -> None:
    weights = weights_of(outputs, inputs)
    stored, stored_groups = blocked(weights, groups, block)
    plain = plain_weights(stored, stored_groups, block)
    np.testing.assert_array_equal(plain[:outputs, :inputs], weights)
    assert not plain[outputs:].any()
    assert not plain[:, inputs:].any()


@pytest.mark.parametrize("block", [SMALL, LARGE])
@pytest.mark.parametrize(
    ("outputs", "inputs", "groups"),
    [(24, 3, 1), (24, 1, 24), (24, 40, 1), (32, 20, 1), (28, 16, 1), (40, 1, 40), (32, 12, 1)],
)
@pytest.mark.parametrize("size", [1, 3])
def test_channels_show_their_block(
    outputs: int, inputs: int, groups: int, size: int, block: int
) -> None:
    stored, stored_groups = blocked(weights_of(outputs, inputs, size), groups, block)
    assert shown_block(stored, stored_groups) == block


def test_whole_blocks_of_sixteen_show_nothing() -> None:
    for block in (SMALL, LARGE):
        assert shown_block(*blocked(weights_of(32, 16), 1, block)) is None


def model_of(*convolutions: tuple[Any, int]) -> onnx.ModelProto:
    nodes, tensors = [], []
    for number, (weights, groups) in enumerate(convolutions):
        tensors.append(numpy_helper.from_array(weights, f"w{number}"))
        names = [f"x{number}", f"w{number}"]
        nodes.append(helper.make_node("Conv", names, ["y"], domain=DOMAIN, group=groups))
    graph = helper.make_graph(nodes, "g", [], [], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(DOMAIN, 1)])


def test_one_convolution_tells_for_all() -> None:
    for block in (SMALL, LARGE):
        silent = blocked(weights_of(32, 16), 1, block)
        telling = blocked(weights_of(24, 3), 1, block)
        assert find_block_size(model_of(silent, telling)) == block


def test_else_it_is_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = model_of(blocked(weights_of(32, 16), 1, LARGE))
    monkeypatch.setattr(nchwc_blocks, "block_of_machine", lambda: LARGE)
    with blocks_of(silent):
        assert block_size() == LARGE
    assert block_size() == SMALL
    with blocks_of(helper.make_model(helper.make_graph([], "g", [], []))):
        assert block_size() == SMALL


def test_this_machine_is_asked_for_its_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    block_of_machine.cache_clear()
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert block_of_machine() == LARGE
    block_of_machine.cache_clear()
    monkeypatch.undo()
    assert block_of_machine() in (SMALL, LARGE)
