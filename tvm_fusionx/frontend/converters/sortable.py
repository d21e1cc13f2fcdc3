"""Elements that TVM sorts, for those of every type: a wider type, or the bits in another order."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.values import constant

# What TVM 0.19 sorts on every path: `topk` and `argsort` raise an untyped error for the others.
SORTABLE = ("float32", "float64", "int32", "int64")
# Types that a sortable one holds whole, in the same order.
WIDER = {"bool": "int32", "int8": "int32", "uint8": "int32", "int16": "int32"}
WIDER |= {"uint16": "int32", "uint32": "int64", "float16": "float32"}
WIDER["bfloat16"] = "float32"


def can_sort(dtype: str) -> bool:
    """Tell whether elements of `dtype` have a sortable form."""
    return dtype in SORTABLE or dtype in WIDER or dtype == "uint64"


def as_sortable(x: Any, dtype: str) -> Any:
    """Return `x` in a type that TVM sorts, in the same order."""
    if dtype == "uint64":
        return _with_other_sign(relay.cast(x, "int64"))
    return x if dtype in SORTABLE else relay.cast(x, WIDER[dtype])


def total_order(x: Any, dtype: str) -> Any:
    """Return whole numbers in the order of `x`, of a sortable type: equal ones are equal in it.

    Of floats these are their bits. Both zeros are one, and every NaN is the one that comes last:
    compared as floats, a NaN has no place, and what is sorted around it has none either.
    """
    if not dtype.startswith("float"):
        return x
    whole = dtype.replace("float", "int")
    limits = np.iinfo(whole)
    bits = relay.reinterpret(x, whole)
    zero, most = (constant(np.asarray(number, whole)) for number in (0, limits.max))
    infinity = constant(np.asarray(np.inf, dtype).view(whole))
    # All bits but the sign's, which is the highest.
    magnitude = relay.bitwise_and(bits, most)
    signed = relay.where(relay.less(bits, zero), relay.negative(magnitude), magnitude)
    return relay.where(relay.greater(magnitude, infinity), most, signed)


def from_sortable(x: Any, dtype: str) -> Any:
    """Return what :func:`as_sortable` made of elements of `dtype` as it was."""
    if dtype == "uint64":
        return relay.cast(_with_other_sign(x), "uint64")
    return x if dtype in SORTABLE else relay.cast(x, dtype)


def _with_other_sign(x: Any) -> Any:
    """Turn the highest bit over: 0 to 2**64 - 1 become -2**63 to 2**63 - 1."""
    return relay.bitwise_xor(x, constant(np.asarray(np.iinfo("int64").min, "int64")))
