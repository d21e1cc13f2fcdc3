"""What a GPU target offers to a schedule: work-groups, local memory, vectors, and its limits.

The facts come from the target's attributes alone, so that a phone's GPU is described on the machine
that compiles for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm

OPENCL = "opencl"
ADRENO = "adreno"

# A vector load of an OpenCL buffer is widest at 16 bytes on Adreno and Mali: four float32.
VECTOR_LANES = 4

# Work-items that a group has at most, whatever the target says: groups beyond leave no registers
# for a tile on Adreno 5xx and 6xx, whose compiler then refuses the kernel.
MOST_ITEMS = 256

# Local memory that every full-profile OpenCL 1.1 device has at least is 32 KB (specification, table
# 4.3); TVM's default for the target is 16 KB.
DEFAULT_LOCAL_BYTES = 16 * 1024

# Qualcomm's driver ends the process on kernels with more arguments (TVM, target_kind.cc).
DEFAULT_ARGUMENTS = 128
DEFAULT_TEXTURE_EXTENT = 16384

# Bodies unrolled to more statements: clBuildProgram of Adreno's driver takes memory without bound.
# Loops unrolled 64 times around a tile exhausted it, so a kernel has less in all.
MOST_UNROLLED = 512

# Results that one work-item keeps in registers: 32 accumulators leave an Adreno 6xx two waves.
MOST_ACCUMULATORS = 32

# Work-items that keep a phone's GPU busy: 8 to 16 groups of 128 on each of up to eight cores.
BUSY_ITEMS = 8192


@dataclass(frozen=True)
class Gpu:
    """A GPU as a schedule sees it."""

    items: int = MOST_ITEMS
    """Work-items of a group, at most."""

    local_bytes: int = DEFAULT_LOCAL_BYTES
    """Local memory of a group."""

    lanes: int = VECTOR_LANES
    """float32 lanes of the widest vector load."""

    dot: None = None
    """What multiplies integers: no template for GPUs has such an instruction."""

    arguments: int = DEFAULT_ARGUMENTS
    """Arguments of a kernel, at most."""

    texture_extent: int = DEFAULT_TEXTURE_EXTENT
    """Width and height of an image, at most."""

    unrolled: int = MOST_UNROLLED
    """Statements of an unrolled body, at most."""

    accumulators: int = MOST_ACCUMULATORS
    """Results that a work-item keeps in registers, at most."""

    busy_items: int = BUSY_ITEMS
    """Work-items below which the device is not busy."""

    has_textures: bool = False
    """Whether image2d textures are the faster way to read (Adreno)."""

    def dot_for(self, data: str) -> None:
        """Return what multiplies integers of an element type, as a CPU does: None, see `dot`."""


def is_gpu(target: tvm.target.Target) -> bool:
    """Tell whether `target` is compiled to OpenCL."""
    return str(target.kind.name) == OPENCL


def describe_gpu(target: tvm.target.Target) -> Gpu:
    """Return what an OpenCL target offers, from its attributes.

    ``-max_threads_per_block``, ``-max_shared_memory_per_block``, ``-max_function_args`` and
    ``-texture_spatial_limit`` are TVM's; ``-device=adreno`` says that there are textures, for
    which TVM has no attribute of OpenCL.
    """
    attributes = target.attrs

    def number(name: str, otherwise: int) -> int:
        return int(attributes.get(name, otherwise))

    is_adreno = str(attributes.get("device", "")) == ADRENO
    return Gpu(
        items=min(MOST_ITEMS, number("max_threads_per_block", MOST_ITEMS)),
        local_bytes=number("max_shared_memory_per_block", DEFAULT_LOCAL_BYTES),
        arguments=number("max_function_args", DEFAULT_ARGUMENTS),
        texture_extent=number("texture_spatial_limit", DEFAULT_TEXTURE_EXTENT),
        has_textures=is_adreno,
    )
