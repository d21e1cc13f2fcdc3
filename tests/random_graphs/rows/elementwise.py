"""Operators that work element by element, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.random_graphs.builder import GraphBuilder
from tests.random_graphs.rows.row import Row

Draw = Callable[[GraphBuilder], dict[str, Any]]
WIDE = (-1e3, 1e3)


def no_attributes(g: GraphBuilder) -> dict[str, Any]:
    """Draw nothing."""
    return {}


def draw_unary(
    operator: str,
    bounds: tuple[float, float],
    attributes: Draw,
    exact: bool,
    g: GraphBuilder,
) -> None:
    """Apply a function of one float tensor whose numbers lie in `bounds`."""
    dtypes = ("float32",) if not exact else ("float32", "float64")
    operand = g.pick_float(low=bounds[0], high=bounds[1], dtypes=dtypes)
    g.add(operator, [operand], exact=exact, **attributes(g))


def unary(
    operator: str,
    low: float = WIDE[0],
    high: float = WIDE[1],
    attributes: Draw = no_attributes,
    exact: bool = False,
    since: int = 11,
    weight: float = 1.0,
) -> Row:
    """Return the row of a function of one float tensor."""
    draw = partial(draw_unary, operator, (low, high), attributes, exact)
    return Row(operator, draw, since, weight)


def draw_integer_unary(operator: str, g: GraphBuilder) -> None:
    """Apply Abs, Neg or Sign to integers."""
    g.add(operator, [g.pick_integer()], exact=True)


def draw_arithmetic(operator: str, g: GraphBuilder) -> None:
    """Combine two float tensors that broadcast, in either order."""
    first = g.pick_float()
    second = g.partner(first)
    g.add(operator, [first, second] if g.chance(0.5) else [second, first])


def draw_division(g: GraphBuilder) -> None:
    """Divide by numbers away from zero."""
    first = g.pick_float()
    g.add("Div", [first, g.partner(first, 0.4, 4.0)])


def draw_power(g: GraphBuilder) -> None:
    """Raise positive numbers to any power, or any numbers to a whole one."""
    if g.chance(0.5):
        base = g.pick_float(low=0.2, high=4.0, dtypes=("float32",))
        g.add("Pow", [base, g.partner(base, -2.0, 2.5)])
        return
    base = g.pick_float(low=-8, high=8, dtypes=("float32",))
    exponent = np.array(g.choose((2, 3, 1, 0)))
    dtype = g.choose(("float32", "int64", "int32")) if g.opset >= 12 else "float32"
    g.add("Pow", [base, g.add_constant(exponent, dtype)])


def draw_slope(g: GraphBuilder) -> None:
    """PRelu: the slope broadcasts to the data, never the other way."""
    data = g.pick_float(dtypes=("float32",))
    shape = g.shape(data)
    kept = shape[g.integer(0, len(shape)) :] if g.chance(0.3) else shape
    slope = tuple(1 if g.chance(0.4) else size for size in kept)
    g.add("PRelu", [data, g.add_constant(g.draw_array(slope, "float32", 0.05, 0.4))])


def draw_variadic(operator: str, g: GraphBuilder) -> None:
    """Combine one to four tensors."""
    first = g.pick_float()
    operands = [first, *(g.partner(first) for _ in range(g.integer(0, 3)))]
    g.add(operator, operands, exact=operator in ("Max", "Min"))


def draw_integer_arithmetic(operator: str, g: GraphBuilder) -> None:
    """Combine two integer tensors; no result leaves int32."""
    first = g.pick_integer(low=-1000, high=1000)
    second = g.partner(first, -9, 9)
    operands = [first, second] if g.chance(0.5) else [second, first]
    g.add(operator, operands, exact=True)


def draw_integer_division(operator: str, g: GraphBuilder) -> None:
    """Divide integers of either sign, by anything but zero."""
    first = g.pick_integer(low=-1000, high=1000)
    dtype, shape = g.values[first].dtype, g.shape(first)
    divisor = g.draw_array(shape if g.chance(0.6) else (), dtype, 1, 5)
    signs = g.draw_array(divisor.shape, dtype, 0, 1) * 2 - 1
    divisor = np.asarray(divisor * signs, dtype)
    leaf = g.add_constant(divisor)
    if operator == "Mod":
        g.add("Mod", [first, leaf], exact=True, fmod=g.choose((None, 0, 1)))
    else:
        g.add("Div", [first, leaf], exact=True)


def draw_float_modulo(g: GraphBuilder) -> None:
    """Take the remainder of floats, which needs fmod=1."""
    first = g.pick_float(low=-50, high=50, dtypes=("float32",))
    g.add("Mod", [first, g.partner(first, 0.5, 3.0)], fmod=1)


def draw_shift(g: GraphBuilder) -> None:
    """Shift unsigned integers by fewer bits than they have."""
    dtype = g.choose(("uint8", "uint32", "uint64"))
    data = g.pick_integer(dtypes=(dtype,), low=0, high=255)
    amount = g.partner(data, 0, 5)
    g.add("BitShift", [data, amount], exact=True, direction=g.choose(("LEFT", "RIGHT")))


def draw_bitwise(operator: str, g: GraphBuilder) -> None:
    """Combine the bits of two integers."""
    first = g.pick_integer(dtypes=("int32", "int64", "uint8"))
    operands = [first] if operator == "BitwiseNot" else [first, g.partner(first, 0, 9)]
    g.add(operator, operands, exact=True)


def draw_comparison(operator: str, g: GraphBuilder) -> None:
    """Compare two tensors of floats or integers."""
    first = g.pick_float() if g.chance(0.6) else g.pick_integer()
    g.add(operator, [first, g.partner(first)], exact=True)


def draw_logic(operator: str, g: GraphBuilder) -> None:
    """Combine booleans."""
    first = g.pick_bool()
    operands = [first] if operator == "Not" else [first, g.partner(first)]
    g.add(operator, operands, exact=True)


def draw_where(g: GraphBuilder) -> None:
    """Select between two tensors; all three broadcast."""
    first = g.pick_any()
    if g.values[first].dtype == "bool":
        first = g.pick_float()
    second = g.partner(first)
    shape = np.broadcast_shapes(g.shape(first), g.shape(second))

    def is_suitable(value: Any) -> bool:
        if value.dtype != "bool":
            return False
        try:
            return bool(np.broadcast_shapes(value.shape, shape) == shape)
        except ValueError:
            return False

    condition = g.pick(is_suitable, lambda: g.add_leaf(shape, "bool"))
    g.add("Where", [condition, first, second], exact=True)


def draw_clip(g: GraphBuilder) -> None:
    """Clip from below, from above, on both sides or not at all, by constants or by inputs."""
    if g.opset >= 12 and g.chance(0.3):
        data, low, high = g.pick_integer(), g.integer(-6, 0), g.integer(1, 7)
    else:
        data = g.pick_float()
        low, high = float(g.rng.uniform(-1.5, 0.2)), float(g.rng.uniform(0.3, 1.5))
    dtype = g.values[data].dtype

    def bound(number: float) -> str:
        if g.chance(0.85):
            return g.add_constant(np.array(number), dtype)
        return g.add_input((), dtype, number, number)

    form = g.choose(("none", "low", "high", "both", "both"))
    operands = [data]
    if form in ("low", "both"):
        operands.append(bound(low))
    elif form == "high":
        operands.append("")
    if form in ("high", "both"):
        operands.append(bound(high))
    g.add("Clip", operands, exact=True)


CASTS = {
    "float32": ("int32", "int64", "float64", "bool", "int8", "float32"),
    "float64": ("float32", "int64"),
    "int32": ("float32", "int64", "bool", "float64"),
    "int64": ("float32", "int32", "bool", "float64"),
    "bool": ("float32", "int64", "int32", "uint8"),
}


def draw_cast(operator: str, g: GraphBuilder) -> None:
    """Convert to another dtype in which the numbers fit."""
    data = g.pick_any()
    source = g.values[data].dtype
    if source == "float32" and g.chance(0.5):
        data = g.pick_float(low=-100, high=100, dtypes=("float32",))
    target = g.choose(CASTS[source])
    is_rounding = (source, target) == ("float64", "float32")
    if operator == "CastLike":
        g.add("CastLike", [data, g.add_leaf((1,), target)], exact=not is_rounding)
    else:
        element = helper.np_dtype_to_tensor_dtype(np.dtype(target))
        g.add("Cast", [data], exact=not is_rounding, to=element)


def draw_quantize(g: GraphBuilder) -> None:
    """Quantize to 8 bits, per tensor or per axis."""
    data = g.pick_float(min_rank=1, low=-100, high=100, dtypes=("float32",))
    low, high = g.array(data).min(), g.array(data).max()
    scale = float(max(high - low, 0.1)) / 180
    dtype = g.choose(("int8", "uint8"))
    # Off the grid, so that few numbers lie halfway between two steps.
    scale_name = g.add_constant(np.array(scale * 1.00731, np.float32))
    zero = g.add_constant(np.array(g.integer(0, 20)), dtype)
    (quantized,) = g.add("QuantizeLinear", [data, scale_name, zero], exact=True)
    if g.chance(0.7):
        g.add("DequantizeLinear", [quantized, scale_name, zero])


def draw_dropout(g: GraphBuilder) -> None:
    """Dropout at inference: the data as it is."""
    data = g.pick_float(dtypes=("float32",))
    if g.opset >= 12:
        operands = [data] if g.chance(0.5) else [data, g.add_constant(np.array(0.3, np.float32))]
        g.add("Dropout", operands, exact=True)
    else:
        g.add("Dropout", [data], exact=True, ratio=0.3)


def draw_identity(g: GraphBuilder) -> None:
    """Copy a tensor of any dtype."""
    g.add("Identity", [g.pick_any()], exact=True)


def slope(low: float, high: float) -> Draw:
    """Return a function that draws the attribute alpha, or leaves the default."""
    return lambda g: {"alpha": float(g.rng.uniform(low, high)) if g.chance(0.7) else None}


def hard_sigmoid(g: GraphBuilder) -> dict[str, Any]:
    """Draw slope and offset."""
    return {"alpha": float(g.rng.uniform(0.1, 0.4)), "beta": float(g.rng.uniform(0.3, 0.6))}


def shrink(g: GraphBuilder) -> dict[str, Any]:
    """Draw threshold and bias."""
    return {"lambd": float(g.rng.uniform(0.2, 0.8)), "bias": float(g.rng.uniform(0, 0.3))}


def infinity(g: GraphBuilder) -> dict[str, Any]:
    """Draw which infinities count."""
    return {"detect_negative": g.choose((None, 0, 1)), "detect_positive": g.choose((None, 0, 1))}


def draw_constant_of_shape(g: GraphBuilder) -> None:
    """Fill a shape with one number and multiply something by it."""
    shape = g.add_constant(np.array(g.draw_shape(), np.int64))
    number = g.representable(np.array([g.rng.uniform(0.5, 2)], np.float32))
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [float(number[0])])
    g.add("ConstantOfShape", [shape], exact=True, value=value)


ROWS: tuple[Row, ...] = (
    unary("Abs", exact=True),
    unary("Neg", exact=True),
    unary("Exp", -6, 3),
    unary("Log", 0.1, 50),
    unary("Sqrt", 0.05, 100),
    unary("Reciprocal", 0.3, 50),
    unary("Erf", weight=1.5),
    unary("Sigmoid", weight=2),
    unary("Tanh", weight=1.5),
    unary("Relu", exact=True, weight=2.5),
    unary("LeakyRelu", attributes=slope(0.01, 0.3)),
    unary("Elu", attributes=slope(0.5, 1.5)),
    unary("Selu"),
    unary("Celu", attributes=slope(0.5, 1.5), since=12),
    unary("Softplus", -20, 20),
    unary("Softsign"),
    unary("HardSigmoid", attributes=hard_sigmoid),
    unary("HardSwish", since=14, weight=1.5),
    unary("Mish", -10, 10, since=18),
    unary("ThresholdedRelu", attributes=slope(0.2, 1.0), exact=True),
    unary("Shrink", attributes=shrink),
    unary("Sin", -10, 10),
    unary("Cos", -10, 10),
    unary("Tan", -1, 1),
    unary("Asin", -0.9, 0.9),
    unary("Acos", -0.9, 0.9),
    unary("Atan"),
    unary("Sinh", -4, 4),
    unary("Cosh", -4, 4),
    unary("Asinh"),
    unary("Acosh", 1.2, 50),
    unary("Atanh", -0.9, 0.9),
    unary("Floor", exact=True),
    unary("Ceil", exact=True),
    unary("Round", exact=True),
    unary("Sign", exact=True),
    unary("IsNaN", exact=True),
    unary("IsInf", attributes=infinity, exact=True),
    *(Row(name, partial(draw_integer_unary, name), weight=0.4) for name in ("Abs", "Neg", "Sign")),
    *(Row(name, partial(draw_arithmetic, name), weight=2) for name in ("Add", "Sub", "Mul")),
    Row("Div", draw_division, weight=2),
    Row("Pow", draw_power, weight=1.5),
    Row("PRelu", draw_slope),
    *(Row(name, partial(draw_variadic, name)) for name in ("Max", "Min", "Sum", "Mean")),
    *(
        Row(name, partial(draw_integer_arithmetic, name), weight=0.7)
        for name in ("Add", "Mul", "Sub")
    ),
    *(
        # Integers only since opset 12.
        Row(name, partial(draw_integer_arithmetic, name), since=12, weight=0.5)
        for name in ("Max", "Min")
    ),
    *(Row(name, partial(draw_integer_division, name)) for name in ("Div", "Mod")),
    Row("Mod", draw_float_modulo),
    Row("BitShift", draw_shift),
    *(
        Row(name, partial(draw_bitwise, name), since=18)
        for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
    ),
    *(Row(name, partial(draw_comparison, name)) for name in ("Equal", "Greater", "Less")),
    *(
        Row(name, partial(draw_comparison, name), since=12)
        for name in ("GreaterOrEqual", "LessOrEqual")
    ),
    *(Row(name, partial(draw_logic, name)) for name in ("And", "Or", "Xor", "Not")),
    Row("Where", draw_where, weight=2),
    Row("Clip", draw_clip, weight=2.5),
    Row("Cast", partial(draw_cast, "Cast"), weight=2),
    Row("CastLike", partial(draw_cast, "CastLike"), since=15),
    Row("QuantizeLinear", draw_quantize),
    Row("Dropout", draw_dropout, weight=0.5),
    Row("Identity", draw_identity, weight=0.7),
    Row("ConstantOfShape", draw_constant_of_shape, weight=0.5),
)
