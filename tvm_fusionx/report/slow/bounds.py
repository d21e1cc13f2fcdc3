"""How large a report of slow blocks, and what it tells, may be."""

from __future__ import annotations

# Of the file: all of its blocks at their largest fit.
MOST_FILE_BYTES = 4 << 20

# Distinct blocks: those that lose most.
MOST_BLOCKS = 32

# Of one block as text: hundreds of calls take a quarter of it.
MOST_BLOCK_BYTES = 100_000

MOST_CALLS = 512
MOST_OPERANDS = 256
MOST_RESULTS = 64

# TVM's own templates go to six axes, packed weights to eight.
MOST_AXES = 12

# Of an int32, which indices are counted in.
LARGEST_EXTENT = 2**31 - 1

# Operands and results of one block in memory, and any value between two of its calls.
MOST_TENSOR_BYTES = 4 << 30

# Numbers of a constant that stays: indices and shapes, no table.
MOST_KEPT_NUMBERS = 64

MOST_ATTRIBUTES = 64
MOST_ATTRIBUTE_NUMBERS = 256
MOST_ATTRIBUTE_DEPTH = 4
MOST_TEXT = 4096
MOST_REFUSALS = 64

LARGEST_INTEGER = 2**63 - 1

# What numpy and TVM both know.
DTYPES = frozenset(
    ["bfloat16", "bool", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
