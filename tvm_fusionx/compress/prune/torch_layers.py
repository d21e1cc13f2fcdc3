"""The weights of a torch module that can be pruned, with what their axes mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tvm_fusionx._tvm.presence import install_command
from tvm_fusionx.compress.prune.layouts import (
    ATTENTION,
    CONV,
    CONV_TRANSPOSE,
    EMBEDDING,
    GATES,
    GRU,
    LINEAR,
    LSTM,
    RNN,
    Layout,
)
from tvm_fusionx.errors import MissingDependencyError

try:
    import torch
    from torch import nn
except ImportError as error:
    raise MissingDependencyError(
        "pruning with training",
        expected="the torch package",
        found=str(error),
        next_step=f"Install it with: {install_command('torch')}.",
    ) from error

__all__ = ["find_layers", "tensor_like", "torch", "values_of"]

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_RECURRENT = {nn.LSTM: LSTM, nn.GRU: GRU, nn.RNN: RNN}
_CELLS = {nn.LSTMCell: LSTM, nn.GRUCell: GRU, nn.RNNCell: RNN}
# Query, key and value, one below the other.
PROJECTIONS = 3


def find_layers(model: Any) -> list[tuple[Layout, Any]]:
    """Return the weights of a module's layers, each with its parameter, in the module's order.

    A parameter that several layers share is named once, by the first. Names are those of
    ``named_parameters()``, less ``.weight``: ``features.0``, ``lstm.weight_ih_l0``.
    """
    found: list[tuple[Layout, Any]] = []
    seen: set[int] = set()
    for path, module in model.named_modules():
        for name, kind, parts, inputs_first in _weights(module):
            parameter = getattr(module, name, None)
            if not isinstance(parameter, nn.Parameter) or id(parameter) in seen:
                continue
            seen.add(id(parameter))
            words = [path] if name == "weight" else [path, name]
            called = ".".join(word for word in words if word) or name
            layout = Layout(called, kind, tuple(parameter.shape), parts, 0, inputs_first)
            found.append((layout, parameter))
    return found


def _weights(module: Any) -> Iterator[tuple[str, str, int, bool]]:
    """Yield name, kind of layer, parts, and whether inputs lie first, of a module's own weights."""
    if isinstance(module, _CONVOLUTIONS):
        yield "weight", CONV, module.groups, False
    elif isinstance(module, _TRANSPOSED):
        yield "weight", CONV_TRANSPOSE, module.groups, True
    elif isinstance(module, nn.MultiheadAttention):
        yield "in_proj_weight", ATTENTION, PROJECTIONS, False
        for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
            yield name, ATTENTION, 1, False
    elif isinstance(module, nn.Linear):
        yield "weight", LINEAR, 1, False
    elif isinstance(module, nn.Embedding):
        yield "weight", EMBEDDING, 1, False
    for kinds in (_RECURRENT, _CELLS):
        for known, kind in kinds.items():
            if isinstance(module, known):
                for name, parameter in module.named_parameters(recurse=False):
                    if name.startswith("weight") and parameter.ndim == 2:
                        # What an LSTM projects its state with has no gates.
                        parts = 1 if name.startswith("weight_hr") else GATES[kind]
                        yield name, kind, parts, False


def values_of(parameter: Any) -> np.ndarray:
    """Return a parameter's values as float32."""
    return parameter.detach().to("cpu", torch.float32).numpy()


def tensor_like(parameter: Any, array: np.ndarray) -> Any:
    """Return an array as a tensor of a parameter's device and type."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(parameter.device, parameter.dtype)
