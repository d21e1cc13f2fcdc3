from __future__ import annotations

import numpy as np
from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.rewrite.dequantized_constants import (
    dequantization_of,
    known_integers,
    unpack_constants,
)

LEVELS = np.arange(-6, 6, dtype="int8").reshape(4, 3)
SCALES, ZEROS = np.float32([1, 2, 0.5, 4]), np.int32([0, 1, -1, 2])
MEANING = (LEVELS - ZEROS[:, None]).astype("float32") * SCALES[:, None]


def _numbers(levels: relay.Expr) -> relay.Expr:
    return relay.qnn.op.dequantize(levels, relay.const(SCALES), relay.const(ZEROS), axis=0)


def test_what_a_moved_constant_is_made_of() -> None:
    moved = relay.transpose(relay.reshape(_numbers(relay.const(LEVELS)), (2, 6)), (1, 0))
    value = graph(relay.add(var("x", 6, 2), moved)).outputs[0].node.operands[1]
    assert dequantization_of(value) is not None
    known = known_integers(value)
    numbers = (known.integers - known.zeros) * known.scales
    np.testing.assert_array_equal(numbers, MEANING.reshape(2, 6).T)
    assert [str(part.dtype) for part in (known.integers, known.scales, known.zeros)] == [
        "int16",
        "float32",
        "int16",
    ]


def test_constants_become_floats_and_inputs_do_not() -> None:
    both = relay.add(_numbers(relay.const(LEVELS)), _numbers(var("x", 4, 3, dtype="int8")))
    changed = graph(both)
    assert unpack_constants(changed) == 1
    (total,) = [node for node in changed.calls() if node.op == "add"]
    constant, computed = total.operands
    np.testing.assert_array_equal(constant.array, MEANING)
    assert dequantization_of(computed) is None
    assert unpack_constants(changed) == 0
