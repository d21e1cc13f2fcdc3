"""A candidate as a torch module, to be trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tvm_fusionx.search.networks import EPSILON, Layer, input_of, layers_of, run_layers

WEIGHT, ZEROS, ONES = "weight", "zeros", "ones"
# Of what follows the data and is not trained.
MEAN, VARIANCE = "mean", "variance"
BUFFERS = (MEAN, VARIANCE)
# What torch takes for the running statistics of batch normalisation.
MOMENTUM = 0.1


class TorchNetwork(nn.Module):
    """Layers as one module; parameters have the names of :mod:`tvm_fusionx.search.networks`.

    Parameters
    ----------
    layers
        What it computes.
    example
        A tensor like its input, for shapes alone.
    seed
        Of the initial weights, which depend on nothing else.
    first
        Place of the first layer in the network that it is a part of.
    """

    def __init__(
        self, layers: Sequence[Layer], example: torch.Tensor, seed: int = 0, first: int = 0
    ) -> None:
        super().__init__()
        self.layers = tuple(layers)
        self.first = first
        generator = torch.Generator().manual_seed(seed)
        self.kinds: dict[str, str] = {}
        shapes: dict[str, tuple[int, ...]] = {}
        with torch.no_grad():
            ops = TorchOps(_Declared(self.kinds, shapes), False)
            run_layers(self.layers, ops, example, first)
        for name, kind in self.kinds.items():
            initial = _initial(kind, shapes[name], generator)
            if kind in BUFFERS:
                self.register_buffer(name, initial)
            else:
                self.register_parameter(name, nn.Parameter(initial))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the layers make of `x`: of a whole network ``(batch, classes)`` logits."""
        ops = TorchOps(_Held(self), self.training)
        result: torch.Tensor = run_layers(self.layers, ops, x, self.first)
        return result

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the weights as float32 arrays by name: what the ONNX writer takes."""
        return {name: value.detach().numpy().copy() for name, value in self.state_dict().items()}

    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take weights by name, all of them; RuntimeError where one is missing or of no use."""
        self.load_state_dict({name: torch.from_numpy(value) for name, value in arrays.items()})

    def inherit(self, arrays: Mapping[str, np.ndarray]) -> float:
        """Take the weights that have a name and a shape of here, and return their share of all."""
        own = self.state_dict()
        taken = {
            name: torch.from_numpy(value)
            for name, value in arrays.items()
            if name in own and own[name].shape == value.shape
        }
        self.load_state_dict({**own, **taken})
        sizes = {name: value.numel() for name, value in own.items()}
        return sum(sizes[name] for name in taken) / sum(sizes.values())


def torch_network(candidate: Mapping[str, Any], seed: int = 0) -> TorchNetwork:
    """Return the module of a candidate."""
    shape, dtype = input_of(candidate)
    example = torch.zeros(shape, dtype=getattr(torch, dtype), device="meta")
    return TorchNetwork(layers_of(candidate), example, seed)


class _Declared:
    """Notes which parameters a program asks for."""

    def __init__(self, kinds: dict[str, str], shapes: dict[str, tuple[int, ...]]) -> None:
        self.kinds, self.shapes = kinds, shapes

    def __call__(self, name: str, shape: tuple[int, ...], kind: str) -> torch.Tensor:
        assert name not in self.kinds, f"two parameters are called {name}"
        self.kinds[name], self.shapes[name] = kind, shape
        return torch.zeros(shape, device="meta")


class _Held:
    """Finds a module's parameters."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self, name: str, shape: tuple[int, ...], kind: str) -> torch.Tensor:
        found: torch.Tensor = getattr(self.module, name)
        return found


def held_by(network: TorchNetwork) -> _Held:
    """Return what finds a network's parameters, for operators that run a part of it."""
    return _Held(network)


ACTIVATION_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "swish": functional.silu,
    "hard_swish": functional.hardswish,
}
"""Each activation of :data:`tvm_fusionx.search.space_file.ACTIVATIONS` in torch."""


class TorchOps:
    """The operators of :class:`tvm_fusionx.search.networks.Ops` in torch.

    Parameters
    ----------
    parameter
        Returns the tensor of a name, a shape and a kind.
    training
        Whether batch normalisation follows the data.
    """

    layer = ""

    def __init__(
        self, parameter: Callable[[str, tuple[int, ...], str], torch.Tensor], training: bool
    ) -> None:
        self.parameter, self.training = parameter, training

    def embedding(self, ids: Any, name: str, rows: int, width: int) -> Any:
        """Return a row of a table for each integer."""
        return functional.embedding(ids, self.parameter(name, (rows, width), WEIGHT))

    def position(self, x: Any, name: str, tokens: int, width: int) -> Any:
        """Return ``x`` plus a parameter."""
        return x + self.parameter(name, (tokens, width), WEIGHT)

    def dense(self, x: Any, name: str, inputs: int, outputs: int) -> Any:
        """Return a product and a bias."""
        weight = self.parameter(f"{name}_weight", (inputs, outputs), WEIGHT)
        return x @ weight + self.parameter(f"{name}_bias", (outputs,), ZEROS)

    def layer_norm(self, x: Any, name: str, width: int) -> Any:
        """Return `x` normalised over its last axis."""
        scale = self.parameter(f"{name}_scale", (width,), ONES)
        shift = self.parameter(f"{name}_shift", (width,), ZEROS)
        return functional.layer_norm(x, (width,), scale, shift, EPSILON)

    def convolution(
        self,
        x: Any,
        name: str,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
    ) -> Any:
        """Return a convolution, batch normalisation behind it."""
        shape = (outputs, inputs // groups, kernel, kernel)
        weight = self.parameter(f"{name}_weight", shape, WEIGHT)
        made = functional.conv2d(x, weight, None, stride, kernel // 2, 1, groups)
        return functional.batch_norm(
            made,
            self.parameter(f"{name}_mean", (outputs,), MEAN),
            self.parameter(f"{name}_variance", (outputs,), VARIANCE),
            self.parameter(f"{name}_scale", (outputs,), ONES),
            self.parameter(f"{name}_shift", (outputs,), ZEROS),
            self.training,
            MOMENTUM,
            EPSILON,
        )

    def matmul(self, a: Any, b: Any) -> Any:
        """Return the product of the last two axes."""
        return a @ b

    def add(self, a: Any, b: Any) -> Any:
        """Return the sum."""
        return a + b

    def scale(self, x: Any, factor: float) -> Any:
        """Return `x` times a number."""
        return x * factor

    def softmax(self, x: Any) -> Any:
        """Return the softmax over the last axis."""
        return x.softmax(-1)

    def activate(self, x: Any, kind: str) -> Any:
        """Return an activation of each element."""
        return ACTIVATION_FUNCTIONS[kind](x)

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        """Return `x` with `shape` behind the batch."""
        return x.reshape(x.shape[0], *shape)

    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        """Return `x` with its axes in this order."""
        return x.permute(*axes)

    def mean(self, x: Any, axes: Sequence[int]) -> Any:
        """Return the mean over axes, which vanish."""
        return x.mean(tuple(axes))


def _initial(kind: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    if kind in (ZEROS, MEAN):
        return torch.zeros(shape)
    if kind in (ONES, VARIANCE):
        return torch.ones(shape)
    if len(shape) == 2:
        inputs = shape[0]
        # Glorot and Bengio, 2010: variance 2 over inputs and outputs.
        return torch.randn(shape, generator=generator) * math.sqrt(2 / (inputs + shape[1]))
    # He et al., 2015: variance 2 over inputs, as a ReLU follows.
    return torch.randn(shape, generator=generator) * math.sqrt(2 / math.prod(shape[1:]))
