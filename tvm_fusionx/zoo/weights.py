"""Random weights with the statistics of trained ones, so that no constant folds by accident."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm_fusionx.zoo.packages import import_zoo_package

# How far a norm's scale strays from 1 and a bias from 0: enough that forgetting either is visible.
NORM_SPREAD = 0.1
BIAS_SPREAD = 0.1
EMBEDDING_SPREAD = 0.5
# Batch norm's running variance is drawn between these; trained nets hold a similar range.
VARIANCE_RANGE = (0.5, 1.5)
# Least variance of a calibrated channel, as a part of its layer's mean.
VARIANCE_FLOOR = 1e-2


def draw_weights(model: Any, seed: int, gain: float = 1.0) -> Any:
    """Fill every parameter and running statistic of a torch module, in place, from `seed`.

    Matrices and kernels get a normal distribution of variance ``gain**2 / fan_in``, so that
    activations keep their size from layer to layer; norms get scales near 1; biases are not zero.

    Returns
    -------
    model
        The same module, in evaluation mode.
    """
    torch = import_zoo_package("torch")
    generator = torch.Generator().manual_seed(seed)

    def normal(tensor: Any, mean: float, spread: float) -> None:
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * spread + mean)

    with torch.no_grad():
        for module in model.modules():
            is_embedding = isinstance(module, torch.nn.Embedding)
            # transformers' Conv1D (GPT-2) stores its matrix as (in, out), torch's layers (out, in).
            is_input_first = type(module).__name__ == "Conv1D"
            for name, value in module.named_parameters(recurse=False):
                if is_embedding:
                    normal(value, 0.0, EMBEDDING_SPREAD)
                elif value.dim() == 1:
                    is_scale = name.startswith("weight")
                    normal(value, float(is_scale), NORM_SPREAD if is_scale else BIAS_SPREAD)
                else:
                    fan_in = value.shape[0] if is_input_first else value[0].numel()
                    normal(value, 0.0, gain / math.sqrt(fan_in))
            for name, value in module.named_buffers(recurse=False):
                if name == "running_mean":
                    normal(value, 0.0, BIAS_SPREAD)
                elif name == "running_var":
                    value.uniform_(*VARIANCE_RANGE, generator=generator)
    return model.eval()


def calibrate_norms(model: Any, arguments: Sequence[Any]) -> Any:
    """Set every batch norm's running statistics to what it sees when `arguments` pass the model.

    Random kernels with statistics that do not fit them make activations vanish or explode over
    fifty layers; with the ones that they cause, every layer's outputs have the spread its norm
    asks for. A model without batch norm stays as it is.

    Each array is also shown mirrored in its last two axes, since one picture leaves a single value
    a channel where the map has shrunk to 1x1.

    Parameters
    ----------
    model
        A torch module.
    arguments
        One numpy array per input, a picture or a clip of a batch of 1.

    Returns
    -------
    model
        The same module, in evaluation mode.
    """
    torch = import_zoo_package("torch")
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return model.eval()
    model.train()
    for norm in norms:
        norm.momentum = 1.0  # the statistics of the last pass, not an average with those drawn
    with torch.no_grad():
        model(*(_with_mirrored(torch, torch.from_numpy(array)) for array in arguments))
        for norm in norms:
            # A channel that the picture leaves constant must not be divided by nothing.
            floor = norm.running_var.mean() * VARIANCE_FLOOR
            norm.running_var.clamp_(min=float(floor))
    return model.eval()


def _with_mirrored(torch: Any, x: Any) -> Any:
    return torch.cat([x, x.flip(-1), x.flip(-2), x.flip(-2, -1)])
