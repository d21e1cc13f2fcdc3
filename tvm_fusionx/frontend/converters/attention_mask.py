"""Which keys each query may see, and what is added to its scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx._tvm.arrays import limits_of
from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.values import constant


class Mask:
    """Restrictions on [batch, head, query, key], each broadcast from the right as in NumPy.

    What is known while compiling stays in NumPy until the end, so that a causal mask or one of
    constants is a constant of the model.

    Parameters
    ----------
    filter_value
        What is added to the score of a key that a query may not see; None for the lowest number of
        the type. A finite one, since a softmax taken piece by piece subtracts the largest score so
        far: of infinities that would be NaN.
    """

    def __init__(self, filter_value: float | None = None) -> None:
        self.filter_value = filter_value
        self._known: Any = None
        self._computed: Any = None
        self._added: Any = None
        self._added_dtype = "float32"
        self._known_added: Any = None

    def keep(self, allowed: Any) -> None:
        """Allow only positions where `allowed`, an array or an expression of booleans, is true."""
        if isinstance(allowed, np.ndarray):
            self._known = allowed if self._known is None else self._known & allowed
        else:
            computed = self._computed
            self._computed = allowed if computed is None else relay.logical_and(computed, allowed)

    def add(self, bias: Any, dtype: str) -> None:
        """Add `bias`, an array or an expression of `dtype`, to the scores; -inf forbids a key."""
        if isinstance(bias, np.ndarray):
            self.keep(bias != -np.inf)
            finite = np.where(bias == -np.inf, np.zeros((), bias.dtype), bias)
            known = self._known_added
            self._known_added = finite if known is None else known + finite
        else:
            bias = bias if self._added is None else relay.cast(bias, self._added_dtype)
            self._added = bias if self._added is None else self._added + bias
            self._added_dtype = dtype if self._added is bias else self._added_dtype

    @property
    def is_empty(self) -> bool:
        """Tell whether every query sees every key, and nothing is added."""
        is_all = self._known is None or bool(self._known.all())
        is_zero = self._known_added is None or not self._known_added.any()
        return is_all and is_zero and self._computed is None and self._added is None

    def bias(self, dtype: str, filter_value: float | None = None) -> Any:
        """Return what to add to scores of `dtype`, or None where that is nothing.

        Parameters
        ----------
        filter_value
            In place of the mask's own, for who wants to see infinities.
        """
        if self.is_empty:
            return None
        low = self.filter_value if filter_value is None else filter_value
        low = float(limits_of(dtype).min) if low is None else low
        known = np.zeros((), dtype) if self._known_added is None else self._known_added
        known = known.astype(dtype)
        if self._known is not None:
            known = np.where(self._known, known, np.asarray(low, dtype))
        result = constant(known)
        if self._added is not None:
            added = cast(self._added, self._added_dtype, dtype)
            # -inf + low would be -inf again, and low + low.
            floor = relay.const(low, dtype)
            if np.isfinite(low):
                added = relay.maximum(added, floor)
            result = added if not known.any() else added + result
            if self._known is not None and not self._known.all():
                result = relay.where(constant(self._known), result, floor)
        if self._computed is not None:
            result = relay.where(self._computed, result, relay.const(low, dtype))
        return result

    def rows_with_a_key(self) -> Any:
        """Return which queries see a key, as [..., query, 1], or None where all of them do.

        Found while compiling where nothing is computed at run time.
        """
        if self._computed is None and self._added is None:
            if self._known is None or self._known.any(-1).all():
                return None
            return constant(self._known.any(-1, keepdims=True))
        allowed = self._computed
        if self._added is not None:
            finite = relay.greater(self._added, relay.const(-np.inf, self._added_dtype))
            allowed = finite if allowed is None else relay.logical_and(allowed, finite)
        if self._known is not None and not self._known.all():
            allowed = relay.logical_and(constant(self._known), allowed)
        # Relay has no "any" that a softmax's kernel could be fused with; a maximum is one.
        counted = relay.max(relay.cast(allowed, "float32"), -1, True)
        return relay.greater(counted, relay.const(0.5, "float32"))


def positions(queries: int, keys: int) -> tuple[Any, Any]:
    """Return the numbers of queries as a column, and those of keys as a row."""
    return np.arange(queries)[:, None], np.arange(keys)[None, :]


def causal(queries: int, keys: int, offset: Any) -> Any:
    """Return where key j <= query i + offset.

    Parameters
    ----------
    offset
        How many keys come before the first query: a number, an int64 array that broadcasts with
        [query, key], or an expression of int64 that does.
    """
    rows, columns = positions(queries, keys)
    return at_least(offset, columns - rows)


def window(queries: int, keys: int, offset: Any, before: int, after: int) -> list[Any]:
    """Return where a key is at most `before` before its query and `after` after it; -1: any."""
    rows, columns = positions(queries, keys)
    limits = []
    if before >= 0:
        limits.append(at_most(offset, columns - rows + before))
    if after >= 0:
        limits.append(at_least(offset, columns - rows - after))
    return limits


def at_least(value: Any, limit: Any) -> Any:
    """Return value >= limit, in NumPy where the value is known."""
    if isinstance(value, relay.Expr):
        return relay.greater_equal(value, constant(limit.astype("int64")))
    return np.asarray(value) >= limit


def at_most(value: Any, limit: Any) -> Any:
    """Return value <= limit, in NumPy where the value is known."""
    if isinstance(value, relay.Expr):
        return relay.less_equal(value, constant(limit.astype("int64")))
    return np.asarray(value) <= limit
