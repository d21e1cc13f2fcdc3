"""What all elements of a vector answer alike is asked once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tir

from tests.schedules.stored_vectors import stored_widths
from tvm_fusionx.late_passes.decide_once_a_vector import decide_once_a_vector

LANES = 8
COLUMNS = 64

# Where a row is joined, as a test of the column; whether whole vectors lie on each side.
JOINTS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "from a whole vector on": (lambda j: j >= 32, True),
    "up to a whole vector": (lambda j: j < 24, True),
    "beyond the last of a vector": (lambda j: j > 39, True),
    "counted downwards": (lambda j: 31 - j >= 0, True),
    "in every other vector": (lambda j: j % 16 < 8, True),
    "scaled": (lambda j: j * 3 < 48, True),
    "within a vector": (lambda j: j >= 33, False),
    "one element": (lambda j: j < 1, False),
    "every other element": (lambda j: j % 2 < 1, False),
    # Both ends of a vector answer alike, and those between do not.
    "equal at both ends": (lambda j: (j % 7) < 1, False),
}


def _joined(test: Callable[[Any], Any]) -> Any:
    """Return rows whose columns come from two tensors, chosen by `test`; in vectors of 8."""
    x, y = (te.placeholder((5, COLUMNS), name=name) for name in "xy")
    z = te.compute((5, COLUMNS), lambda i, j: tir.if_then_else(test(j), x[i, j], y[i, j]))
    sch = tir.Schedule(te.create_prim_func([x, y, z]))
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    *_, lane = sch.split(sch.get_loops(block)[-1], [None, LANES])
    sch.vectorize(lane)
    return sch.mod["main"]


def _context() -> Any:
    config = {"tir.add_lower_pass": [(1, decide_once_a_vector())]}
    return tvm.transform.PassContext(opt_level=3, config=config)


@pytest.mark.parametrize("name", JOINTS)
def test_joints_of_whole_vectors_are_vectors(name: str) -> None:
    test, is_whole = JOINTS[name]
    assert stored_widths(_joined(test), decide_once_a_vector()) == [LANES if is_whole else 1]


@pytest.mark.parametrize("name", JOINTS)
def test_each_element_comes_from_where_it_came(name: str) -> None:
    test, _ = JOINTS[name]
    with _context():
        library = tvm.build(_joined(test), "llvm", name="main")
    x, y = np.arange(2 * 5 * COLUMNS, dtype="float32").reshape(2, 5, COLUMNS)
    z = tvm.nd.empty(x.shape)
    library["main"](tvm.nd.array(x), tvm.nd.array(y), z)
    columns = np.array([bool(test(j)) for j in range(COLUMNS)])
    np.testing.assert_array_equal(z.numpy(), np.where(columns, x, y))


def test_a_test_of_elements_is_left_alone() -> None:
    x = te.placeholder((COLUMNS,), name="x")
    z = te.compute((COLUMNS,), lambda j: tir.Select(x[j] >= 0.0, x[j], -x[j]))
    sch = tir.Schedule(te.create_prim_func([x, z]))
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    *_, lane = sch.split(sch.get_loops(block)[-1], [None, LANES])
    sch.vectorize(lane)
    with _context():
        library = tvm.build(sch.mod["main"], "llvm", name="main")
    values = np.random.default_rng(0).standard_normal(COLUMNS).astype("float32")
    found = tvm.nd.empty(values.shape)
    library["main"](tvm.nd.array(values), found)
    np.testing.assert_array_equal(found.numpy(), np.abs(values))


def test_a_joint_is_decided_by_remainders() -> None:
    """Rows and pieces of seven vectors in one loop, vectors in another: neither end is simpler."""
    pieces, vectors = 75, 7
    columns = pieces * vectors * LANES
    x, y = (te.placeholder((5, columns), name=name) for name in "xy")
    z = te.compute((5, columns), lambda i, j: tir.if_then_else(j >= 4000, y[i, j], x[i, j]))
    sch = tir.Schedule(te.create_prim_func([x, y, z]))
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    row, column = sch.get_loops(block)
    outer, _, lane = sch.split(column, [pieces, vectors, LANES])
    sch.fuse(row, outer)
    sch.vectorize(lane)
    assert stored_widths(sch.mod["main"], decide_once_a_vector()) == [LANES]
