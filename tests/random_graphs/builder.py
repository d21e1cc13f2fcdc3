"""A graph under construction: every value is computed as it is added, and must stay tame.

Beside its value, every tensor carries twins: the same computation with noise of a few rounding
errors added after each arithmetic operator. A node is only accepted while its twins stay close, and
equal for integers and booleans. So no graph holds a tie, a step at an integer, a cancellation or a
division by nearly zero on which two correct compilers could differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.half_models import DTYPES
from tests.random_graphs.evaluate import Array, RejectedError, run_model, single_node_model

TWINS = 2


@dataclass(frozen=True)
class Precision:
    """How a graph's numbers are rounded, and how far that may move them."""

    noise: float
    """What every operator adds to the twins, relative to the tensor's largest element."""

    twin_tolerance: float
    """How far this noise may grow."""

    narrow: str = ""
    """What the graph's float32 is to become, inputs and constants too: a float of 16 bits."""


# Ten rounding errors of float32; real errors then stay well below 1e-5.
SINGLE = Precision(1e-6, 3e-5)
# One rounding error of float16.
HALF = Precision(2.0**-11, 1.5e-2, narrow="float16")
# And one of bfloat16.
BRAIN = Precision(2.0**-8, 1.2e-1, narrow="bfloat16")
LARGEST_MAGNITUDE = 1e4
MOST_ELEMENTS = 4096
# Small ones keep builds quick; 8, 16 and 24 are widths of vectors and register tiles.
SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 16, 24)
SIZE_WEIGHTS = (0.12, 0.16, 0.15, 0.15, 0.11, 0.09, 0.1, 0.06, 0.03, 0.03)
UNUSED_VALUE_WEIGHT = 10.0

Shape = tuple[int, ...]


@dataclass
class Value:
    """One tensor of the graph."""

    name: str
    array: Array
    twins: tuple[Array, ...]
    users: int = 0
    kind: str = "node"  # or "input", "constant"

    @property
    def shape(self) -> Shape:
        """Static shape."""
        return tuple(self.array.shape)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return self.array.ndim

    @property
    def dtype(self) -> str:
        """Element type, as numpy spells it."""
        return str(self.array.dtype)


class GraphBuilder:
    """Adds nodes to a graph, drawing from one random generator."""

    def __init__(self, seed: int, opset: int, precision: Precision = SINGLE) -> None:
        self.precision = precision
        self.rng = np.random.default_rng(seed)
        self.opset = opset
        self.values: dict[str, Value] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.counter = 0
        self.has_names = self.rng.random() < 0.95
        self.uses_constant_nodes = self.rng.random() < 0.2

    # Drawing.

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return bool(self.rng.random() < probability)

    def choose(self, options: Sequence[Any]) -> Any:
        """Return one of the options."""
        return options[int(self.rng.integers(len(options)))]

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return int(self.rng.integers(low, high + 1))

    def draw_shape(self, min_rank: int = 0, max_rank: int = 4) -> Shape:
        """Return a shape; rank 0 and sizes of 1 are not rare."""
        rank = self.integer(min_rank, max_rank)
        return tuple(int(size) for size in self.rng.choice(SIZES, rank, p=SIZE_WEIGHTS))

    def draw_axes(self, rank: int, least: int = 1) -> list[int]:
        """Return distinct axes in random order, some counted from the end."""
        count = self.integer(min(least, rank), rank)
        axes = [int(axis) for axis in self.rng.permutation(rank)[:count]]
        return [axis - rank if self.chance(0.3) else axis for axis in axes]

    def draw_axis(self, rank: int) -> int:
        """Return one axis, at times counted from the end."""
        return self.integer(-rank, rank - 1)

    def draw_array(self, shape: Shape, dtype: str, low: float, high: float) -> Array:
        """Return numbers between `low` and `high`; integers include both."""
        kind = np.dtype(dtype).kind
        if kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        if kind in "iu":
            return np.asarray(self.rng.integers(int(low), int(high) + 1, shape), dtype)
        return np.asarray(self.rng.uniform(low, high, shape), dtype)

    # Values.

    def representable(self, array: Array) -> Array:
        """Return a leaf's numbers as the type holds them that the graph will have."""
        if self.precision.narrow and array.dtype == np.float32:
            return array.astype(DTYPES[self.precision.narrow]).astype(np.float32)
        return array

    def fresh_name(self, prefix: str) -> str:
        """Return a name that no value has."""
        self.counter += 1
        return f"{prefix}_{self.counter}"

    def add_input(
        self, shape: Shape, dtype: str = "float32", low: float = -2.0, high: float = 2.0
    ) -> str:
        """Add a graph input with numbers from `low` to `high` and return its name."""
        array = self.representable(self.draw_array(shape, dtype, low, high))
        return self._add_value("input", array).name

    def add_constant(self, array: Any, dtype: str | None = None) -> str:
        """Return the name of a constant of this content: an existing one, or a new one."""
        array = self.representable(np.asarray(array, dtype))
        for value in self.values.values():
            if (
                value.kind == "constant"
                and value.dtype == str(array.dtype)
                and value.shape == array.shape
                and np.array_equal(value.array, array)
            ):
                return value.name
        return self._add_value("constant", array).name

    def add_leaf(
        self, shape: Shape, dtype: str = "float32", low: float = -2.0, high: float = 2.0
    ) -> str:
        """Add an operand that no node computes: more often a constant than a graph input."""
        if self.chance(0.6):
            return self.add_constant(self.draw_array(shape, dtype, low, high))
        return self.add_input(shape, dtype, low, high)

    def _add_value(self, kind: str, array: Array) -> Value:
        value = Value(self.fresh_name(kind), array, (array,) * TWINS, kind=kind)
        self.values[value.name] = value
        return value

    def array(self, name: str) -> Array:
        """Return the numbers of a value."""
        return self.values[name].array

    def shape(self, name: str) -> Shape:
        """Return the shape of a value."""
        return self.values[name].shape

    def pick(self, is_suitable: Callable[[Value], bool], make: Callable[[], str]) -> str:
        """Return a suitable value of the graph, mostly one without users, or make one."""
        suitable = [
            value
            for value in self.values.values()
            if value.kind != "constant" and is_suitable(value)
        ]
        if not suitable or self.chance(0.08):
            return make()
        weights = np.array([1.0 if value.users else UNUSED_VALUE_WEIGHT for value in suitable])
        return suitable[int(self.rng.choice(len(suitable), p=weights / weights.sum()))].name

    def pick_float(
        self,
        min_rank: int = 0,
        max_rank: int = 5,
        low: float = -1e3,
        high: float = 1e3,
        dtypes: Sequence[str] = ("float32", "float64"),
    ) -> str:
        """Return a float value whose numbers lie in the range, or a new input."""

        def make() -> str:
            dtype = "float64" if "float64" in dtypes and self.chance(0.04) else "float32"
            shape = self.draw_shape(min_rank, min(max_rank, max(4, min_rank)))
            return self.add_input(shape, dtype, max(low, -2.0), min(high, max(2.0, low * 2)))

        return self.pick(
            lambda value: (
                value.dtype in dtypes
                and min_rank <= value.rank <= max_rank
                and float(value.array.min(initial=0 if low <= 0 <= high else low)) >= low
                and float(value.array.max(initial=0 if low <= 0 <= high else low)) <= high
            ),
            make,
        )

    def pick_integer(
        self,
        min_rank: int = 0,
        max_rank: int = 5,
        dtypes: Sequence[str] = ("int32", "int64"),
        low: int = -100,
        high: int = 100,
    ) -> str:
        """Return an integer value in the range, or a new input."""

        def make() -> str:
            shape = self.draw_shape(min_rank, min(max_rank, max(4, min_rank)))
            return self.add_input(shape, self.choose(dtypes), max(low, -9), min(high, 9))

        return self.pick(
            lambda value: (
                value.dtype in dtypes
                and min_rank <= value.rank <= max_rank
                and int(value.array.min()) >= low
                and int(value.array.max()) <= high
            ),
            make,
        )

    def pick_bool(self) -> str:
        """Return a boolean value, or a new input."""
        return self.pick(
            lambda value: value.dtype == "bool",
            lambda: self.add_input(self.draw_shape(), "bool"),
        )

    def pick_any(self, min_rank: int = 0, max_rank: int = 5) -> str:
        """Return a value of any dtype."""
        drawn = self.rng.random()
        if drawn < 0.75:
            return self.pick_float(min_rank, max_rank)
        if drawn < 0.9 or min_rank > 0:
            return self.pick_integer(min_rank, max_rank)
        return self.pick_bool()

    def partner(self, name: str, low: float = -2.0, high: float = 2.0) -> str:
        """Return a second operand that broadcasts with `name`: of the graph, or a new leaf."""
        value = self.values[name]

        def is_suitable(other: Value) -> bool:
            if other.dtype != value.dtype or other.name == name:
                return False
            try:
                shape = np.broadcast_shapes(other.shape, value.shape)
            except ValueError:
                return False
            in_range = value.dtype == "bool" or (
                float(other.array.min()) >= low and float(other.array.max()) <= high
            )
            return bool(in_range and np.prod(shape) <= MOST_ELEMENTS)

        def make() -> str:
            kept = value.shape[self.integer(0, value.rank) if self.chance(0.4) else 0 :]
            shape = tuple(1 if self.chance(0.3) else size for size in kept)
            return self.add_leaf(shape, value.dtype, low, high)

        return make() if self.chance(0.4) else self.pick(is_suitable, make)

    # Nodes.

    def add(
        self,
        operator: str,
        operands: Sequence[str],
        outputs: int = 1,
        exact: bool = False,
        **attributes: Any,
    ) -> list[str]:
        """Add one node, and return the names of its outputs.

        Parameters
        ----------
        operator
            ONNX operator type.
        operands
            Names of values; an empty string omits an optional operand.
        outputs
            How many outputs the node has.
        exact
            The operator copies, selects or counts: it adds no rounding error of its own.
        attributes
            ONNX attributes; those that are None are left out.

        Raises
        ------
        RejectedError
            If ONNX Runtime cannot run the node, or a result is not tame.
        """
        self.counter += 1
        node = helper.make_node(
            operator,
            list(operands),
            [self.fresh_name(operator.lower()) for _ in range(outputs)],
            name=f"{operator}_{self.counter}" if self.has_names else "",
            **{key: value for key, value in attributes.items() if value is not None},
        )
        names = [name for name in dict.fromkeys(operands) if name]
        arrays = {name: self.values[name].array for name in names}
        model = single_node_model(node, arrays, self.opset)
        found = run_model(model, arrays)
        noisy = [
            run_model(model, {name: self.values[name].twins[twin] for name in names})
            for twin in range(TWINS)
        ]
        results = [
            self._tame_value(output, found[i], [twin[i] for twin in noisy], exact)
            for i, output in enumerate(node.output)
        ]
        for name in names:
            self.values[name].users += 1
        for value in results:
            self.values[value.name] = value
        self.nodes.append(node)
        return list(node.output)

    def _tame_value(self, name: str, array: Array, twins: list[Array], exact: bool) -> Value:
        if array.size == 0 or array.size > MOST_ELEMENTS:
            raise RejectedError(f"{name} has {array.size} elements")
        if array.dtype.kind != "f":
            if any(not np.array_equal(array, twin) for twin in twins):
                raise RejectedError(f"{name} hangs on a rounding error")
            return Value(name, array, tuple(twins))
        largest = float(np.abs(array).max())
        if not np.isfinite(array).all() or largest > LARGEST_MAGNITUDE:
            raise RejectedError(f"{name} reaches {largest}")
        for twin in twins:
            if not float(np.abs(twin - array).max()) <= self.precision.twin_tolerance * largest:
                raise RejectedError(f"{name} amplifies rounding errors")
        if exact:
            return Value(name, array, tuple(twins))
        signs = self.rng.choice((-1.0, 1.0), array.shape)
        size = self.precision.noise
        noise = signs * self.rng.uniform(size / 2, size, array.shape) * largest
        # Opposite noise: of two twins at a step or a tie, one falls on the other side.
        noisy = (twins[0] + noise, twins[1] - noise)
        return Value(name, array, tuple(np.asarray(twin, array.dtype) for twin in noisy))

    def checkpoint(self) -> tuple[int, list[str], dict[str, int]]:
        """Return a mark to come back to with :meth:`rollback`."""
        return len(self.nodes), list(self.values), {k: v.users for k, v in self.values.items()}

    def rollback(self, mark: tuple[int, list[str], dict[str, int]]) -> None:
        """Forget everything added since the mark."""
        node_count, names, users = mark
        del self.nodes[node_count:]
        self.values = {name: self.values[name] for name in names}
        for name, count in users.items():
            self.values[name].users = count

    def constant_tensor(self, name: str) -> onnx.TensorProto:
        """Return a constant as ONNX stores it."""
        return numpy_helper.from_array(self.values[name].array, name)
