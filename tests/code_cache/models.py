"""Small models that share kernels with one another, built and run."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from tests.relay_modules import const, module, var


def model(last: str = "tanh") -> tvm.IRModule:
    """Return two convolutions, each a kernel of its own, and a third kernel that `last` names."""
    x = var("x", 1, 8, 8, 8)
    value: Any = x
    for seed in range(2):
        weight = const(8, 8, 3, 3, seed=seed)
        value = relay.nn.relu(relay.nn.conv2d(value, weight, padding=(1, 1)))
    value = getattr(relay, last)(relay.sum(value, axis=[2, 3]))
    return module(value, params=[x])


def output(library: Any, device: Any = None) -> np.ndarray:
    """Return what a built model computes."""
    executor = graph_executor.GraphModule(library["default"](device or tvm.cpu()))
    generator = np.random.default_rng(3)
    executor.set_input("x", generator.standard_normal((1, 8, 8, 8)).astype("float32"))
    executor.run()
    result: np.ndarray = executor.get_output(0).numpy()
    return result
