"""Random Relay functions: elementwise, broadcast, reductions, products, movements, many outputs.

Values stay moderate on purpose (no exponential of a sum, no division by what may be small), so that
a difference between two compilers is a fault and not a rounding error blown up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tvm
from hypothesis import strategies as st
from tvm import relay

from tests.relay_modules import const, module, var

UNARY: tuple[Callable[[relay.Expr], relay.Expr], ...] = (
    relay.tanh,
    relay.sigmoid,
    relay.nn.relu,
    relay.abs,
    relay.negative,
    lambda x: relay.exp(relay.tanh(x)),
    lambda x: relay.sqrt(relay.abs(x) + relay.const(0.1)),
    lambda x: relay.clip(x, -0.5, 1.5),
    lambda x: relay.erf(x) * relay.const(0.5),
)
BINARY = (relay.add, relay.multiply, relay.maximum, relay.minimum)
EXTENTS = (1, 2, 3, 4, 6, 8)
MOST_ELEMENTS = 512


@dataclass(frozen=True)
class Tensor:
    """An expression and its shape."""

    expr: relay.Expr
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements."""
        total = 1
        for extent in self.shape:
            total *= extent
        return total


Draw = st.DrawFn
Step = Callable[[Draw, Tensor, list[Tensor]], "list[Tensor]"]


def _unary(draw: Draw, x: Tensor, _: list[Tensor]) -> list[Tensor]:
    return [Tensor(draw(st.sampled_from(UNARY))(x.expr), x.shape)]


def _binary(draw: Draw, x: Tensor, known: list[Tensor]) -> list[Tensor]:
    """Combine with a value of the same shape."""
    other = draw(st.sampled_from([tensor for tensor in known if tensor.shape == x.shape]))
    return [Tensor(draw(st.sampled_from(BINARY))(x.expr, other.expr), x.shape)]


def _constant(draw: Draw, x: Tensor, _: list[Tensor]) -> list[Tensor]:
    """Combine with a constant: a number, a row, or one for each element of the first axis."""
    shapes: list[tuple[int, ...]] = [(), x.shape[-1:], (x.shape[0], *(1 for _ in x.shape[1:]))]
    operand = const(*draw(st.sampled_from(shapes)), seed=draw(st.integers(0, 5)))
    sides = (x.expr, operand) if draw(st.booleans()) else (operand, x.expr)
    return [Tensor(draw(st.sampled_from(BINARY))(*sides), x.shape)]


def _reduce(draw: Draw, x: Tensor, _: list[Tensor]) -> list[Tensor]:
    axis = draw(st.integers(0, len(x.shape) - 1))
    reduce = draw(st.sampled_from([relay.mean, relay.max, relay.sum]))
    kept = tuple(1 if place == axis else extent for place, extent in enumerate(x.shape))
    if draw(st.booleans()) or len(x.shape) == 1:
        return [Tensor(reduce(x.expr, axis=axis, keepdims=True), kept)]
    dropped = tuple(extent for place, extent in enumerate(x.shape) if place != axis)
    return [Tensor(reduce(x.expr, axis=axis), dropped)]


def _normalise(draw: Draw, x: Tensor, _: list[Tensor]) -> list[Tensor]:
    """Take a softmax, or subtract the mean and divide by the root of the variance."""
    axis = draw(st.integers(0, len(x.shape) - 1))
    # One element less its own mean is zero, but for what a fused multiply-add does not round.
    if x.shape[axis] == 1 or draw(st.booleans()):
        return [Tensor(relay.nn.softmax(x.expr, axis=axis), x.shape)]
    centred = x.expr - relay.mean(x.expr, axis=axis, keepdims=True)
    variance = relay.mean(centred * centred, axis=axis, keepdims=True)
    return [Tensor(centred / relay.sqrt(variance + relay.const(0.1)), x.shape)]


def _broadcast(draw: Draw, x: Tensor, _: list[Tensor]) -> list[Tensor]:
    axis = draw(st.integers(0, len(x.shape) - 1))
    reduced = relay.mean(x.expr, axis=axis, keepdims=True)
    return [Tensor(draw(st.sampled_from(BINARY))(x.expr, relay.tanh(reduced)), x.shape)]


def _product(draw: Draw, x: Tensor, _: list[Tensor]) -> list[Tensor]:
    """Multiply by a constant or by itself; values are scaled back to moderate ones."""
    if len(x.shape) == 2 and draw(st.booleans()):
        units = draw(st.sampled_from(EXTENTS))
        weight = const(units, x.shape[1], seed=draw(st.integers(0, 5)))
        return [Tensor(relay.tanh(relay.nn.dense(x.expr, weight)), (x.shape[0], units))]
    if len(x.shape) == 3:
        product = relay.nn.batch_matmul(x.expr, x.expr)
        return [Tensor(relay.tanh(product), (x.shape[0], x.shape[1], x.shape[1]))]
    flat = relay.reshape(x.expr, (1, x.elements))
    weight = const(4, x.elements, seed=draw(st.integers(0, 5)))
    return [Tensor(relay.tanh(relay.nn.dense(flat, weight)), (1, 4))]


def _reshape(draw: Draw, x: Tensor, _: list[Tensor]) -> list[Tensor]:
    shapes: list[tuple[int, ...]] = [(x.elements,), (1, x.elements), x.shape[::-1]]
    for extent in EXTENTS:
        if x.elements % extent == 0:
            shapes += [(extent, x.elements // extent), (1, extent, x.elements // extent)]
    shape = draw(st.sampled_from(shapes))
    return [Tensor(relay.reshape(x.expr, shape), shape)]


def _transpose(draw: Draw, x: Tensor, _: list[Tensor]) -> list[Tensor]:
    axes = draw(st.permutations(range(len(x.shape))))
    return [Tensor(relay.transpose(x.expr, axes), tuple(x.shape[axis] for axis in axes))]


def _concatenate(draw: Draw, x: Tensor, known: list[Tensor]) -> list[Tensor]:
    axis = draw(st.integers(0, len(x.shape) - 1))
    other = draw(st.sampled_from([tensor for tensor in known if tensor.shape == x.shape]))
    shape = tuple(extent * (1 + (place == axis)) for place, extent in enumerate(x.shape))
    return [Tensor(relay.concatenate([x.expr, other.expr], axis=axis), shape)]


def _slice(draw: Draw, x: Tensor, _: list[Tensor]) -> list[Tensor]:
    axis = draw(st.integers(0, len(x.shape) - 1))
    start = draw(st.integers(0, x.shape[axis] - 1))
    stop = draw(st.integers(start + 1, x.shape[axis]))
    shape = tuple(stop - start if place == axis else e for place, e in enumerate(x.shape))
    return [Tensor(relay.strided_slice(x.expr, [start], [stop], axes=[axis]), shape)]


def _split(draw: Draw, x: Tensor, _: list[Tensor]) -> list[Tensor]:
    axis = draw(st.integers(0, len(x.shape) - 1))
    sections = draw(st.sampled_from([n for n in (1, 2, 3) if x.shape[axis] % n == 0]))
    shape = tuple(e // sections if place == axis else e for place, e in enumerate(x.shape))
    return [Tensor(part, shape) for part in relay.split(x.expr, sections, axis=axis)]


def _pad(draw: Draw, x: Tensor, _: list[Tensor]) -> list[Tensor]:
    widths = [(draw(st.integers(0, 1)), draw(st.integers(0, 2))) for _ in x.shape]
    shape = tuple(extent + sum(width) for extent, width in zip(x.shape, widths, strict=True))
    return [Tensor(relay.nn.pad(x.expr, widths), shape)]


STEPS: tuple[Step, ...] = (
    _unary,
    _binary,
    _constant,
    _reduce,
    _normalise,
    _broadcast,
    _product,
    _reshape,
    _transpose,
    _concatenate,
    _slice,
    _split,
    _pad,
)


@st.composite
def random_relay(draw: Draw, most_steps: int = 10) -> tvm.IRModule:
    """Draw a function of two inputs and one to three outputs."""
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.sampled_from(EXTENTS)) for _ in range(rank))
    params = [var("a", *shape), var("b", *shape)]
    known = [Tensor(param, shape) for param in params]
    for _ in range(draw(st.integers(1, most_steps))):
        # Mostly the newest, so that functions grow deep and not only wide.
        recent = known[-3:] if draw(st.booleans()) else known
        made = draw(st.sampled_from(STEPS))(draw, draw(st.sampled_from(recent)), known)
        known += [tensor for tensor in made if tensor.elements <= MOST_ELEMENTS]
    computed = known[2:] or known
    outputs = draw(st.lists(st.sampled_from(computed), min_size=1, max_size=3, unique_by=id))
    return module(*(tensor.expr for tensor in outputs), params=params)
