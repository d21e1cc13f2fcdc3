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
# Added to a batch norm's bias, in standard deviations of what it gives. At 0, every ReLU behind one
# multiplies a rounding error's share by 1.2 (Yang et al., ICLR 2019: pi / (pi - 1) in the square),
# which trained networks do not do and which leaves no digits after fifty layers.
NORM_SHIFT = 1.0
# Batch, channels, height, width.
PICTURE_AXES = 4
# Least variance of a calibrated channel, as a part of its layer's mean square: what a few pictures
# leave almost constant must not be divided by almost nothing.
VARIANCE_FLOOR = 0.05


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

    Each picture is also shown mirrored and as its negative, since one picture leaves a single
    value a channel where the map has shrunk to 1x1.

    Parameters
    ----------
    model
        A torch module.
    arguments
        One numpy array per input, in a batch of 1; four axes or more make a picture or a clip.

    Returns
    -------
    model
        The same module, in evaluation mode.
    """
    torch = import_zoo_package("torch")
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return model.eval()
    model.eval()

    def measure(norm: Any, inputs: tuple[Any, ...]) -> None:
        (x,) = inputs
        axes = [axis for axis in range(x.dim()) if axis != 1]
        variance, mean = torch.var_mean(x, axes, correction=0)
        floor = VARIANCE_FLOOR * (variance + mean.square()).mean()
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance.clamp(min=float(floor)))
        norm.bias.add_(NORM_SHIFT)

    handles = [norm.register_forward_pre_hook(measure) for norm in norms]
    with torch.no_grad():
        model(*(_with_variants(torch, torch.from_numpy(array)) for array in arguments))
    for handle in handles:
        handle.remove()
    return model


def _with_variants(torch: Any, x: Any) -> Any:
    if x.dim() < PICTURE_AXES:
        return x
    mirrored = torch.cat([x, x.flip(-1), x.flip(-2), x.flip(-2, -1)])
    return torch.cat([mirrored, -mirrored])
