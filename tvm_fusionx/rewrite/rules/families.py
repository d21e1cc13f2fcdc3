"""Families of operators that laws hold for."""

from __future__ import annotations

# Never falling, and defined for every number: larger operand, larger (or equal) result.
TOTAL_MONOTONE = ("ceil", "erf", "exp", "floor", "nn.relu", "sigmoid", "tanh")

# Functions of one element, without attributes that an index could depend on.
UNARY = (
    "abs",
    "clip",
    "erf",
    "exp",
    "log",
    "negative",
    "nn.leaky_relu",
    "nn.relu",
    "rsqrt",
    "sigmoid",
    "sqrt",
    "tanh",
)

# Functions of two elements.
BINARY = ("add", "divide", "maximum", "minimum", "multiply", "subtract")

# f(-a) is f(a), and f(-a) is -f(a).
EVEN = ("abs", "cos", "cosh")
ODD = ("atan", "erf", "sign", "sin", "sinh", "tan", "tanh")

# f(a*k) is f(a)*k for every k above zero.
HOMOGENEOUS = ("abs", "nn.leaky_relu", "nn.relu")
