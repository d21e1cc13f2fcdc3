"""Random quantized networks mean what they did; `benchmarks/random_quantized.py` runs hundreds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.quantized_models import meaning, step_of_last
from tests.random_quantized import MOST_SHARE, MOST_STEPS, Network, difference


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
def test_networks_agree_to_a_step(seed: int, tmp_path: Path) -> None:
    network = Network(seed)
    model, x = network.quantized(tmp_path), network.layers.input()
    mod, params = fx.from_onnx(model)
    executor = graph_executor.GraphModule(
        fx.build(mod, "llvm -mcpu=native", params)["default"](tvm.cpu())
    )
    executor.set_input("x", x)
    executor.run()
    found = executor.get_output(0).numpy()
    worst, share = difference(found, meaning(model, x), step_of_last(model))
    assert worst <= MOST_STEPS
    assert share < MOST_SHARE


def test_a_seed_draws_one_network_and_seeds_differ() -> None:
    drawn = [
        [node.op_type for node in Network(seed).layers.model(Network(seed).at.name).graph.node]
        for seed in (3, 3, 4)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert Network(3).how == Network(3).how


def test_differences_are_counted_in_steps() -> None:
    found = np.array([0.0, 0.5, 1.0, 2.0])
    worst, share = difference(found, np.array([0.0, 0.0, 1.0, 2.0]), 0.5)
    assert (worst, share) == (1.0, 0.25)
