"""A cache of keys and values that is filled step by step, of floats or of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto
from tvm import relay

from tvm_fusionx.frontend.converters.attention import Heads
from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode
from tvm_fusionx.frontend.converters.quantization import saturate
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.element_types import ELEMENTS
from tvm_fusionx.frontend.values import Tensor, constant

BITS_OF_A_BYTE = 8
# How a cache keeps numbers of so many bits; of four there are two in a byte.
DTYPES = {8: "int8", 4: "uint8"}
# What is added to a number of four bits for its half of a byte.
HALF_RANGE = 8


@dataclass(frozen=True)
class Cache:
    """How full the cache is."""

    before: Any
    """Positions that it holds before this call: int64 of [batch, 1, 1, 1], or an expression."""
    length: int
    """Positions that it has room for after this call."""

    @property
    def is_empty(self) -> bool:
        """Tell whether it is known to hold nothing yet."""
        return isinstance(self.before, np.ndarray) and not self.before.any()


def cache_of(node: SchemaNode, batch: int, steps: int, room: int) -> Cache:
    """Return the cache of a call that adds `steps` positions to one with `room`."""
    count = int(node.scalar(node.position("total_sequence_length")))
    lengths = node.named("seqlens_k")
    if lengths.shape not in ((batch,), (batch, 1)):
        raise node.refuse(f"seqlens_k of [{batch}]", str(list(lengths.shape)))
    if count == steps:
        # The first call, whatever its batch entries are padded with behind.
        return Cache(np.zeros((batch, 1, 1, 1), "int64"), max(room, count))
    if batch > 1 and steps > 1:
        raise node.refuse(
            "one batch entry or one new position, once the cache holds some",
            f"{batch} entries of {steps} positions",
        )
    # What is given are the indices of the last key.
    if lengths.array is not None:
        before = lengths.array.astype("int64").reshape(batch, 1, 1, 1) + (1 - steps)
    else:
        wide = reshape(relay.cast(lengths.expr, "int64"), (batch, 1, 1, 1))
        before = wide + scalar(1 - steps, "int64")
    return Cache(before, max(room, count))


def filled(cache: Cache, past: Tensor | None, new: Heads) -> Heads:
    """Return a cache with the new positions behind those it holds, and zeros behind them."""
    batch, count, steps, size = new.shape
    shape = (batch, count, cache.length, size)
    room = 0 if past is None else past.shape[2]
    if cache.is_empty or past is None or not room:
        return Heads(padded(new.expr, steps, cache.length), shape)
    old = padded(past.expr, room, cache.length)
    first = cache.before
    if isinstance(first, np.ndarray) and (first == first.flat[0]).all():
        held = int(first.flat[0])
        parts = [relay.strided_slice(old, [0], [held], axes=[2]), new.expr] if held else [new.expr]
        return Heads(padded(relay.concatenate(parts, 2), held + steps, cache.length), shape)
    held = constant(first) if isinstance(first, np.ndarray) else first
    places = constant(np.arange(cache.length, dtype="int64").reshape(1, 1, -1, 1))
    is_old = relay.less(places, held)
    is_new = relay.less(places, held + scalar(steps, "int64"))
    moved = new.expr
    if steps > 1:
        # There is one batch entry: its new positions begin where the old ones end.
        index = relay.clip(reshape(places - held, (-1,)), 0, steps - 1)
        moved = relay.take(new.expr, index, axis=2, mode="clip")
    behind = relay.where(is_new, moved, scalar(0, "float32" if past is None else past.dtype))
    return Heads(relay.where(is_old, old, behind), shape)


def padded(x: Any, length: int, wanted: int) -> Any:
    """Return heads of `length` positions with zeros behind them."""
    if length >= wanted:
        return x
    return relay.nn.pad(x, ((0, 0), (0, 0), (0, wanted - length), (0, 0)), 0.0)


def appended(
    node: SchemaNode, cache: Cache, past: Tensor | None, new: Heads, side: str
) -> tuple[Heads, Any]:
    """Return all keys or values as attention reads them, and as the cache keeps them.

    Parameters
    ----------
    side
        ``k`` or ``v``, of which kind the node names attributes and inputs.
    """
    kind = node.expects(f"{side}_quant_type", "NONE", "PER_TENSOR", "PER_CHANNEL")
    scale = node.maybe(f"{side}_scale")
    if kind == "NONE":
        if scale is not None:
            raise node.refuse(f"no {side}_scale beside {side}_quant_type='NONE'", "one")
        floats = filled(cache, past, new)
        return floats, floats.expr
    bits = int(node.attribute("kv_cache_bit_width") or BITS_OF_A_BYTE)
    if scale is None or past is None or past.dtype != DTYPES.get(bits):
        found = f"{'no past' if past is None else past.dtype} of {bits} bits"
        listed = ", ".join(f"{dtype} of {width} bits" for width, dtype in DTYPES.items())
        raise node.refuse(f"a past among {listed}, and {side}_scale", found)
    dtype, is_half = node.dtype(), bits != BITS_OF_A_BYTE
    # One number, or one for each place of a head, which broadcasts as it is.
    shape = () if scale.rank < 2 else scale.shape
    step = cast(reshape(scale.expr, shape), scale.dtype, "float32")
    scaled = cast(new.expr, dtype, "float32") / step
    if is_half:
        levels = _two_in_a_byte(saturate(scaled, None, TensorProto.INT4, "int8"), new.shape)
    else:
        levels = Heads(saturate(scaled, None, ELEMENTS["int8"], "int8"), new.shape)
    kept = filled(cache, past, levels)
    whole = _one_in_a_byte(kept) if is_half else kept
    numbers = relay.cast(whole.expr, "float32") * step
    return Heads(cast(numbers, "float32", dtype), whole.shape), kept.expr


def _two_in_a_byte(levels: Any, shape: tuple[int, ...]) -> Heads:
    """Return numbers of four bits as bytes, less their lowest, the first in the lower half."""
    raised = relay.cast(levels, "int32") + scalar(HALF_RANGE, "int32")
    pairs = reshape(raised, (*shape[:3], shape[3] // 2, 2))
    low, high = (relay.strided_slice(pairs, [i], [i + 1], axes=[4]) for i in range(2))
    both = relay.cast(low + high * scalar(2 * HALF_RANGE, "int32"), "uint8")
    packed = (*shape[:3], shape[3] // 2)
    return Heads(reshape(both, packed), packed)


def _one_in_a_byte(kept: Heads) -> Heads:
    """Return the numbers of four bits that lie two in a byte."""
    wide, full = relay.cast(kept.expr, "int32"), scalar(2 * HALF_RANGE - 1, "int32")
    low = relay.bitwise_and(wide, full)
    high = relay.right_shift(wide, scalar(4, "int32"))
    shape = (*kept.shape[:3], 2 * kept.shape[3])
    levels = relay.stack([low, high], axis=4) - scalar(HALF_RANGE, "int32")
    return Heads(reshape(levels, shape), shape)
