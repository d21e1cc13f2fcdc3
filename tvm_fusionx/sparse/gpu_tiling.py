"""How a GPU computes a sparse product, and how many instructions that takes.

A work-item computes the channels of one group at some neighbouring places. Four entries of a list
cost one load of their offsets, and each an element of every place (in planes they lie side by side
and are one load), a load for each vector of weights, and their multiply-adds.

Nothing here tells how many multiply-adds a load is worth: both are counted, and a form of a product
is better for certain where it takes fewer of both. What takes time besides, starting a kernel and
moving the data into planes, counts against both: as many multiply-adds, or loads of a vector in the
place of four, as a device could do meanwhile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.processors.gpu_rates import KILO, known_gpus
from tvm_fusionx.processors.rates import FLOAT_BYTES

# Places of a tile: what one load of a vector brings.
PLACES = (1, 2, 4)

# Entries whose offsets are one load.
STEPS = 4

# What a phone's GPU does while it starts a kernel: 20 us at some 500 GFLOP/s, two a multiply-add.
LAUNCH_MULTIPLY_ADDS = 5_000_000


@dataclass(frozen=True)
class PlaneProduct:
    """A sparse product of data in planes."""

    images: int
    rows: int
    """Of the result; one where windows are single pixels, which then are its columns."""
    columns: int
    groups: int
    entries: int
    """Of all lists."""
    vectors: int
    """Of a group."""
    lanes: int
    planed: int
    """Numbers of the data in planes."""
    lying_step: int
    """Elements from a place to the next where the data is read as it lies; 0 where it is not."""

    def tiles(self, places: int) -> int:
        """Return how many tiles of so many places there are; the last of a row moves back."""
        return self.images * self.rows * math.ceil(self.columns / places)


@dataclass(frozen=True)
class Form:
    """How a product is computed."""

    places: int
    """Of a tile."""
    in_planes: bool
    """Whether a kernel in front puts the data in planes."""


@dataclass(frozen=True)
class Issued:
    """What a product takes while the device is busy: as many more where work-items are too few."""

    multiply_adds: float
    """Of single numbers."""
    loads: float
    """And stores: instructions, of a vector or a number."""

    def slots(self, lanes: int) -> float:
        """Return both together, a load counted as a vector of multiply-adds."""
        return self.multiply_adds + self.loads * lanes

    def beside(self, other: Issued) -> tuple[float, float]:
        """Return what this and the other take of that in which they differ least in its favour.

        Both numbers are of multiply-adds, or of loads.
        """
        pairs = ((self.multiply_adds, other.multiply_adds), (self.loads, other.loads))
        return max(pairs, key=lambda pair: pair[0] / max(1.0, pair[1]))


def issued(multiply_adds: float, loads: float, items: int, gpu: Gpu) -> Issued:
    """Return what so many work-items take together."""
    idle = max(1.0, gpu.busy_items / max(1, items))
    return Issued(multiply_adds * idle, loads * idle)


def place_choices(product: PlaneProduct, gpu: Gpu) -> list[int]:
    """Return the places that a tile may have, ascending; one where registers hold no more."""
    most = gpu.accumulators // (product.vectors * product.lanes)
    return [places for places in PLACES if places <= min(product.columns, max(1, most))]


def best_form(product: PlaneProduct, gpu: Gpu) -> Form:
    """Return the form that takes least."""
    forms = [
        Form(places, in_planes)
        for in_planes in ([False, True] if product.lying_step else [True])
        for places in reversed(place_choices(product, gpu))
    ]
    return min(forms, key=lambda form: sparse_issued(product, form, gpu).slots(gpu.lanes))


def sparse_issued(product: PlaneProduct, form: Form, gpu: Gpu) -> Issued:
    """Return what a sparse product takes in a form."""
    places, tiles = form.places, product.tiles(form.places)
    is_row = form.in_planes or product.lying_step == 1
    entries = product.entries * tiles
    computed = issued(
        entries * places * product.vectors * product.lanes,
        entries * (1 / STEPS + (1 if is_row else places) + product.vectors)
        # Where a list begins, ends, and belongs; its sums.
        + product.groups * tiles * (3 + places * product.vectors),
        product.groups * tiles,
        gpu,
    )
    besides = planes_multiply_adds(product.planed) if form.in_planes else 0.0
    return Issued(computed.multiply_adds + besides, computed.loads + besides / gpu.lanes)


def planes_multiply_adds(planed: int) -> float:
    """Return the multiply-adds that a device does while a kernel puts so many numbers in planes.

    Each is read and written; of the GPUs that are known, memory is slowest for the one that
    multiplies most meanwhile.
    """
    a_byte = max(
        gpu.alus * gpu.mhz / (gpu.memory_gb_a_second * KILO) for gpu in known_gpus().values()
    )
    return LAUNCH_MULTIPLY_ADDS + 2 * FLOAT_BYTES * planed * a_byte
