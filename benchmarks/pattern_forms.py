"""Patterns shared by a vector of output channels, or each kernel's own: bytes and estimated cycles.

    python benchmarks/pattern_forms.py

The first form is the sparse kernel as it stands: its storage and the estimate that `PackSparse`
decides by. The second has no kernel: vectors would lie along a row of the result, filters one after
the other in the order of their patterns, and each kernel costs its taps: a load of the data for
each tap and vector of pixels, a weight, broadcast, for each tap. Its estimate takes the sums of as
many vectors as registers hold; a vector that crosses a cache line takes two loads.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tvm_fusionx.expressions.sparse_products import Geometry
from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES, LINE_BYTES
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.sparse import csr_bytes, find_lists, store_lists
from tvm_fusionx.sparse.product_of import window_product
from tvm_fusionx.sparse.tiling import best_tiling, cycles

TARGETS = {
    "zen4": "llvm -mcpu=znver4 -num-cores=1",
    "cortex-a76": "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1",
}
# Channels and side of layers of 3 x 3: of VGG-16 and ResNet-50.
LAYERS = ((64, 56), (128, 28), (256, 14), (512, 7))
# Kernels that stay, of all: patterns alone are 2.25x, with half and with 9 of 32 more 4.5x and 8x.
KEPT = {"2.25x": 1.0, "4.5x": 0.5, "8x": 0.28125}
TAPS, WINDOW = 4, 9
PATTERNS = 8
# Of a kernel in the second form: the number of its input channel; of a filter: where each pattern's
# kernels begin, and its place.
KERNEL_BYTES, FILTER_BYTES = 2, 2 * (PATTERNS + 1) + 2


@dataclass(frozen=True)
class Forms:
    """Both forms of one layer."""

    shared_bytes: int
    own_bytes: int
    csr: int
    shared_cycles: float
    own_cycles: float
    multiply_add_cycles: float
    """Of the numbers that stay, at the peak."""


def shared_matrix(channels: int, lanes: int, kept: float) -> np.ndarray:
    """Return a weight ``[O, C, 9]`` whose patterns and kernels a vector of channels shares."""
    draw = np.random.default_rng(0)
    groups = channels // lanes
    patterns = np.zeros((PATTERNS, WINDOW), "float32")
    for pattern in patterns:
        pattern[draw.choice(WINDOW, TAPS, replace=False)] = 1
    which = draw.integers(0, PATTERNS, (groups, channels))
    stays = np.zeros((groups, channels), "float32")
    for group in stays:
        group[draw.choice(channels, round(kept * channels), replace=False)] = 1
    masks = patterns[which] * stays[..., None]
    values = draw.standard_normal((channels, channels, WINDOW)).astype("float32")
    return values * np.repeat(masks, lanes, 0)


def own_cycles(channels: int, side: int, kernels: float, cpu: Cpu) -> float:
    """Return the estimate of the form that has no kernel: `kernels` of each filter stay."""
    # Rows of the padded image one behind the other: what is computed between them is for nothing.
    pixels = side * (side + 2)
    vectors = math.ceil(pixels / cpu.lanes)
    tile = min(vectors, cpu.registers - TAPS - 2)
    # A tap's vector may begin anywhere: of those places, how many make it cross a line.
    crossing = (cpu.lanes - 1) * FLOAT_BYTES / LINE_BYTES
    loads = TAPS * (tile * (1 + crossing) + 1) + 1
    a_kernel = max(TAPS * tile / cpu.multiply_adds, loads / cpu.loads_a_cycle)
    return channels * kernels * math.ceil(vectors / tile) * a_kernel


def forms_of(channels: int, side: int, kept: float, cpu: Cpu) -> Forms:
    """Return both forms of a layer of 3 x 3, stride 1."""
    lanes = cpu.lanes
    weight = shared_matrix(channels, lanes, kept)
    chunked = weight.reshape(channels, channels // lanes, lanes, WINDOW).transpose(0, 1, 3, 2)
    matrix = np.ascontiguousarray(chunked.reshape(channels, -1))
    geometry = Geometry(channels // lanes, side, side, lanes, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1))
    lists = find_lists(matrix, lanes)
    stored = store_lists(matrix, lists, lanes, geometry.offsets())
    product = window_product(1, geometry, lists.groups, lists.entries, 1, lanes)
    numbers = int(np.count_nonzero(matrix))
    kernels = numbers // TAPS
    return Forms(
        stored.bytes,
        numbers * FLOAT_BYTES + kernels * KERNEL_BYTES + channels * FILTER_BYTES,
        csr_bytes(matrix),
        cycles(product, best_tiling(product, cpu), cpu),
        own_cycles(channels, side, kernels / channels, cpu),
        numbers * side * side / lanes / cpu.multiply_adds,
    )


def table() -> str:
    """Return both forms of all layers, as Markdown."""
    heads = ("target", "layer", "rate", "shared KiB", "own KiB", "CSR KiB")
    heads += ("shared cycles", "own cycles", "shared, of the peak", "own, of the peak")
    lines = [f"| {' | '.join(heads)} |", f"|---|---|---|{'---:|' * (len(heads) - 3)}"]
    for name, text in TARGETS.items():
        cpu = describe_cpu(resolve_target(text))
        for channels, side in LAYERS:
            for rate, kept in KEPT.items():
                both = forms_of(channels, side, kept, cpu)
                sizes = (both.shared_bytes, both.own_bytes, both.csr)
                cells = [name, f"{channels} at {side} x {side}", rate]
                cells += [f"{size / 1024:.0f}" for size in sizes]
                taken = (both.shared_cycles, both.own_cycles)
                cells += [f"{each:.0f}" for each in taken]
                cells += [f"{both.multiply_add_cycles / each:.0%}" for each in taken]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
