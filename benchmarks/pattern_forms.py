"""Zeros shared by a vector of output channels, or each filter's own: bytes and estimated cycles.

    python benchmarks/pattern_forms.py [--rate 8x]

Both forms as `PackSparse` estimates them: lists that a group of channels shares (templates
`sparse`), and filters with zeros of their own (`sparse_filters`), by patterns and without any. What
the dense product takes stands beside them, minimal filtering included.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm
from tvm import relay

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tvm_fusionx.ecg import from_relay
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.layout import pack_convolutions
from tvm_fusionx.layout.blocked_convolution import DENSE_BLOCKED
from tvm_fusionx.layout.sparse import Layer, dense_cycles, layer_of
from tvm_fusionx.layout.sparse_filters import FilterChoice, best_filters
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.sparse import csr_bytes, find_lists, store_lists
from tvm_fusionx.sparse.tiling import best_tiling, cycles

TARGETS = {
    "Zen 4": "llvm -mcpu=znver4 -num-cores=1",
    "Cortex-A76": "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1",
}
# Channels and side of layers of 3 x 3: of VGG-16 and ResNet-50.
LAYERS = ((64, 56), (128, 28), (256, 14), (512, 7))
# Kernels that stay, of all: patterns alone are 2.25x, with half and with 9 of 32 more 4.5x and 8x.
KEPT = {"2.25x": 1.0, "4.5x": 0.5, "8x": 0.28125}
TAPS, WINDOW = 4, 9
PATTERNS = 8
HEADS = ("target", "layer", "rate", "shared: KiB", "patterns: KiB", "scattered: KiB", "CSR: KiB")
HEADS += ("dense: cycles", "shared", "patterns", "scattered")


@dataclass(frozen=True)
class Forms:
    """What one layer takes."""

    bytes: tuple[int, int, int, int]
    """Shared, patterns of their own, scattered, compressed rows."""
    cycles: tuple[float, float, float, float]
    """Dense, shared, patterns of their own, scattered."""


def weight_of(channels: int, group: int, kept: float) -> np.ndarray:
    """Return a weight ``[O, C, 3, 3]``; a group of filters shares patterns and kernels.

    Groups of none: as many numbers, anywhere.
    """
    draw = np.random.default_rng(0)
    shape = (channels, channels, WINDOW)
    if group == 0:
        mask = draw.random(shape) < kept * TAPS / WINDOW
    else:
        patterns = np.zeros((PATTERNS, WINDOW), bool)
        for pattern in patterns:
            pattern[draw.choice(WINDOW, TAPS, replace=False)] = True
        groups = channels // group
        which = draw.integers(0, PATTERNS, (groups, channels))
        stays = np.zeros((groups, channels), bool)
        for row in stays:
            row[draw.choice(channels, round(kept * channels), replace=False)] = True
        mask = np.repeat(patterns[which] & stays[..., None], group, 0)
    values = draw.standard_normal(shape).astype("float32") * mask
    return values.reshape(channels, channels, 3, 3)


def layer_with(weight: np.ndarray, side: int, cpu: Cpu) -> tuple[Node, Layer]:
    """Return the convolution of a weight as the compiler sees it."""
    channels = weight.shape[1]
    x = relay.var("x", shape=(1, channels, side, side))
    attrs = {"padding": (1, 1), "channels": len(weight), "kernel_size": (3, 3)}
    func = relay.Function([x], relay.nn.conv2d(x, relay.const(weight), **attrs))
    graph = from_relay(relay.transform.InferType()(tvm.IRModule.from_expr(func))["main"])
    pack_convolutions(graph, cpu)
    (node,) = (node for node in graph.calls() if node.op == DENSE_BLOCKED)
    return node, layer_of(node, cpu)


def own_of(weight: np.ndarray, side: int, cpu: Cpu) -> FilterChoice:
    """Return the cheapest way to leave zeros out one by one."""
    node, found = layer_with(weight, side, cpu)
    assert found.geometry is not None
    choice = best_filters(node, found.matrix, found.geometry, cpu)
    assert choice is not None
    return choice


def forms_of(channels: int, side: int, kept: float, cpu: Cpu) -> Forms:
    """Return all forms of a layer of 3 x 3, stride 1."""
    _, shared = layer_with(weight_of(channels, cpu.lanes, kept), side, cpu)
    lists = find_lists(shared.matrix, cpu.lanes)
    product = shared.product(lists)
    own = [own_of(weight_of(channels, group, kept), side, cpu) for group in (1, 0)]
    sizes = [store_lists(shared.matrix, lists, cpu.lanes).bytes]
    sizes += [each.stored(cpu).bytes for each in own]
    taken = [dense_cycles(shared, cpu), cycles(product, best_tiling(product, cpu), cpu)]
    taken += [each.cycles for each in own]
    return Forms((*sizes, csr_bytes(shared.matrix)), tuple(taken))  # type: ignore[arg-type]


def table(rates: Sequence[str]) -> str:
    """Return all forms of all layers, as Markdown."""
    lines = [f"| {' | '.join(HEADS)} |", f"|---|---|---|{'---:|' * (len(HEADS) - 3)}"]
    for name, text in TARGETS.items():
        cpu = describe_cpu(resolve_target(text))
        for channels, side in LAYERS:
            for rate in rates:
                forms = forms_of(channels, side, KEPT[rate], cpu)
                cells = [name, f"{channels} at {side} x {side}", rate]
                cells += [f"{size / 1024:.0f}" for size in forms.bytes]
                cells += [f"{each / 1e6:.2f} M" for each in forms.cycles]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rate", choices=[*KEPT], nargs="*", default=[*KEPT])
    print(table(parser.parse_args().rate))
