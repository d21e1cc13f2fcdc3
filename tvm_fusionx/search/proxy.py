"""Operations of a candidate: the proxy that searches without a compiler take for latency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tvm_fusionx.search.networks import input_of, layers_of, run_layers
from tvm_fusionx.search.pruned_layers import pruned_weights
from tvm_fusionx.search.torch_network import TorchOps

# A multiplication and an addition.
OPERATIONS = 2


def flops_of(candidate: Mapping[str, Any]) -> float:
    """Return the operations of one inference in products, those with pruned weights left out.

    Norms, activations and sums beside products are not counted, as is usual for this measure.
    """
    ops = _Counting()
    shape, dtype = input_of(candidate)
    with torch.no_grad():
        example = torch.zeros(shape, dtype=getattr(torch, dtype), device="meta")
        run_layers(layers_of(candidate), ops, example)
    kept = {w.layout.name: 1 - w.structure.target_sparsity for w in pruned_weights(candidate)}
    return sum(count * kept.get(name, 1.0) for name, count in ops.counts)


class _Counting(TorchOps):
    """The operators on tensors without numbers; products are counted by their weight."""

    def __init__(self) -> None:
        super().__init__(_Meta(), False)
        self.counts: list[tuple[str, int]] = []

    def dense(self, x: Any, name: str, inputs: int, outputs: int) -> Any:
        """Count a product."""
        made = super().dense(x, name, inputs, outputs)
        self.counts.append((f"{name}_weight", OPERATIONS * inputs * made.numel()))
        return made

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
        """Count a convolution."""
        made = super().convolution(x, name, inputs, outputs, kernel, stride, groups)
        each = inputs // groups * kernel**2
        self.counts.append((f"{name}_weight", OPERATIONS * each * made.numel()))
        return made

    def matmul(self, a: Any, b: Any) -> Any:
        """Count a product of data."""
        made = super().matmul(a, b)
        self.counts.append(("", OPERATIONS * a.shape[-1] * made.numel()))
        return made


class _Meta:
    """Parameters without numbers."""

    def __call__(self, name: str, shape: tuple[int, ...], kind: str) -> torch.Tensor:
        return torch.zeros(shape, device="meta")
