"""Which results of a kernel may lie where an operand lay, proved from its lowered function.

A result may take the memory of an operand where every element of the operand is read for nothing
but the element of the result at the same place, and that one is stored once. Whatever order the
stores have, in vectors and on several threads, an element is then read before its place is written:
the stored value depends on it. That holds for the code that LLVM makes too, which takes the two for
apart: it may move a load, and never behind the store of what it loads.

So the proof has two halves. The *form*: loads of the operand stand in values of stores of the
result only, and every step from the load to the store computes lane by lane. The *places*: all
iterations of the loops around each store are counted through, none meets a place twice, and each
load's place is that of its store.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm

from tvm_fusionx.late_passes.kernel_accesses import (
    Accesses,
    Condition,
    Let,
    Loop,
    Store,
    accesses_of,
)
from tvm_fusionx.tir.enumerated import NotKnownError, evaluated

# Of stores whose places are counted through: 16 MiB for each variable of a loop.
MOST_ITERATIONS = 1 << 21

Pairs = tuple[tuple[int, int], ...]
"""An operand and a result each, by their numbers among the arguments of the kernel."""


def in_places_of(func: Any) -> Pairs:
    """Return which results of a kernel may lie where which operands do.

    Parameters
    ----------
    func
        A fully lowered host function with the packed calling convention, as a code generator takes
        it.

    Returns
    -------
    Pairs
        Each holds by itself and together with others, where all results and operands differ. The
        result must have room: it is never larger than what is written of it.
    """
    found = accesses_of(func)
    if found is None:
        return ()
    return tuple(
        (operand, result) for result in sorted(found.stores) for operand in _operands(found, result)
    )


def _operands(found: Accesses, result: int) -> list[int]:
    """Return the operands whose place `result` may take."""
    stores = found.stores[result]
    if result in found.exposed:
        return []
    loaded = {operand for store in stores for operand, _ in store.loads}
    able = {
        operand
        for operand in loaded - found.read_elsewhere - found.exposed - found.stores.keys()
        if found.readers[operand] == {result}
    }
    seen: list[np.ndarray] = []
    try:
        for store in stores if able else []:
            _compare(store, able, seen)
    except NotKnownError:
        return []
    if not able or _meet(seen):
        return []
    return sorted(able)


def _compare(store: Store, able: set[int], seen: list[np.ndarray]) -> None:
    """Note the places of a store, and strike out operands that are loaded from others."""
    values, count = _iterations(store)
    own = np.broadcast_to(*_places(store.node, values, count))
    seen.append(own.ravel())
    for operand, load in store.loads:
        if operand in able and not _is_at(load, store.node, own, values, count):
            able.discard(operand)


def _is_at(load: Any, store: Any, own: np.ndarray, values: dict[Any, Any], count: int) -> bool:
    if _element(load) != _element(store):
        return False
    try:
        places, shape = _places(load, values, count)
    except NotKnownError:
        return False
    return shape == own.shape and np.array_equal(np.broadcast_to(places, shape), own)


def _element(access: Any) -> tuple[int, int]:
    kind = tvm.DataType(access.buffer.dtype)
    return int(kind.type_code), int(kind.bits)


def _places(access: Any, values: dict[Any, Any], count: int) -> tuple[np.ndarray, tuple[int, int]]:
    """Return the elements that an access touches, and (iterations, lanes) to spread them over."""
    place = np.zeros((1, 1), "int64")
    for index, extent in zip(access.indices, access.buffer.shape, strict=True):
        if len(access.indices) > 1:
            place = place * evaluated(extent, values)
        place = place + evaluated(index, values)
    lanes = tvm.DataType(access.buffer.dtype).lanes
    if lanes > 1:
        if place.shape[1] > 1:
            raise NotKnownError("vectors of vectors")
        place = place * lanes + np.arange(lanes, dtype="int64").reshape(1, -1)
    return place, (count, place.shape[1])


def _meet(seen: list[np.ndarray]) -> bool:
    """Tell whether a place is written twice, or lies before the buffer."""
    places = np.concatenate(seen)
    if not places.size:
        return False
    ordered = np.sort(places)
    return bool(ordered[0] < 0 or np.any(ordered[1:] == ordered[:-1]))


def _iterations(store: Store) -> tuple[dict[Any, Any], int]:
    """Return the value of each variable around a store, in each iteration that may reach it.

    A condition that is not known, as whether memory could be freed, is taken to hold: then more
    iterations are counted than run, and no proof is found that does not hold.
    """
    values: dict[Any, Any] = {}
    count = 1
    for step in store.around:
        if isinstance(step, Loop):
            low, extent = (_spread(each, values, count) for each in (step.low, step.extent))
            extent = np.maximum(extent, 0)
            total = int(extent.sum())
            if total > MOST_ITERATIONS:
                raise NotKnownError("too many iterations")
            rows = np.repeat(np.arange(count), extent)
            values = {var: known[rows] for var, known in values.items()}
            starts = np.repeat(np.cumsum(extent) - extent, extent)
            values[step.var] = low[rows] + np.arange(total) - starts
            count = total
            continue
        try:
            known = _spread(step.value, values, count)
        except NotKnownError:
            continue
        if isinstance(step, Let):
            values[step.var] = known
        elif isinstance(step, Condition):
            kept = known.astype(bool) == step.holds
            values = {var: old[kept] for var, old in values.items()}
            count = int(kept.sum())
    return values, count


def _spread(expr: Any, values: dict[Any, Any], count: int) -> np.ndarray:
    known = evaluated(expr, values)
    if known.shape[1] != 1:
        raise NotKnownError("a vector")
    return np.broadcast_to(known[:, 0], (count,))
