"""Weights that a kernel reads through an image: a phone's GPU caches images by themselves.

An image of OpenCL holds pixels of four values. A weight whose last axis is four long lies in one as
in a buffer: its first axis counts the rows, the others the pixels of a row (TVM's
``global.texture-weight``). Constants alone are put on the device in such a shape, and bear names of
their own, given by :class:`tvm_fusionx.passes.PackTextures`; ``pixels`` has what kernels write.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.tir.block import BlockInfo

CONSTANT_NAME = "constant"

WEIGHT_SCOPE = "global.texture-weight"
PIXEL = 4
FEWEST_AXES = 3

# What a pixel of an image may hold and be read as float32.
DTYPES = ("float32", "float16")


def texture_weight(info: BlockInfo) -> Any | None:
    """Return the largest operand of a block's products that may be an image, or None."""
    wanted = {name for dot in info.dots for name in (dot.name, *info.upstream(dot.name))}
    read = {buffer.data for name in wanted for buffer in info.stages[name].reads}
    candidates = [
        buffer
        for buffer in info.func.buffer_map.values()
        if buffer.data in read and why_no_texture(buffer, info.gpu) is None
    ]
    return max(candidates, key=lambda each: math.prod(map(int, each.shape)), default=None)


def why_no_texture(buffer: Any, gpu: Gpu) -> str | None:
    """Return why a parameter cannot be an image, or None."""
    if not is_constant(buffer):
        return "it is no constant"
    if buffer.dtype not in DTYPES:
        return f"an image holds no {buffer.dtype}"
    shape = [int(extent) for extent in buffer.shape]
    if len(shape) < FEWEST_AXES or shape[-1] != PIXEL:
        return "its last axis is not a pixel"
    rows, columns = shape[0], math.prod(shape[1:-1])
    if max(rows, columns) > gpu.texture_extent:
        return f"{rows} x {columns} pixels are more than the device's {gpu.texture_extent}"
    return None


def takes_pixels(width: int, tile: int) -> bool:
    """Tell whether tiles of an axis `width` long read whole pixels, or one value each.

    The last tile of a row moves back where tiles do not divide it, and would begin inside of a
    pixel; two lanes of a vector are no pixel.
    """
    return width % PIXEL == 0 and (tile == 1 or tile % PIXEL == 0)


def is_constant(buffer: Any) -> bool:
    """Tell whether a parameter of a block is a constant of the model."""
    return bool(buffer.name.startswith(CONSTANT_NAME))


def as_texture(func: Any, data: Any) -> Any:
    """Return a scheduled function that takes the parameter with data variable `data` as an image.

    Parameters
    ----------
    func
        A scheduled block; only loads read the parameter.
    """
    (buffer,) = [each for each in func.buffer_map.values() if each.data.same_as(data)]
    element = tvm.ir.PointerType(tvm.ir.PrimType(buffer.dtype), WEIGHT_SCOPE)
    image = tir.decl_buffer(
        buffer.shape, buffer.dtype, buffer.name, tir.Var(buffer.data.name, element)
    )

    def moved(regions: Any) -> list[Any]:
        return [
            tir.BufferRegion(image, region.region) if region.buffer.data.same_as(data) else region
            for region in regions
        ]

    def rewrite(node: Any) -> Any:
        if isinstance(node, tir.BufferLoad):
            return tir.BufferLoad(image, node.indices) if node.buffer.data.same_as(data) else None
        return tir.Block(
            node.iter_vars,
            moved(node.reads),
            node.writes,
            node.name_hint,
            node.body,
            node.init,
            node.alloc_buffers,
            node.match_buffers,
            node.annotations,
        )

    body = tir.stmt_functor.ir_transform(func.body, None, rewrite, ["tir.BufferLoad", "tir.Block"])
    parameters = {
        param: image if each.data.same_as(data) else each for param, each in func.buffer_map.items()
    }
    return tir.PrimFunc(func.params, body, func.ret_type, parameters, func.attrs)


def texture_parameters(func: Any) -> dict[int, str]:
    """Return the positions of a function's parameters that are images, and their scopes."""
    scopes = [str(func.buffer_map[param].scope()) for param in func.params]
    return {place: scope for place, scope in enumerate(scopes) if scope == WEIGHT_SCOPE}
