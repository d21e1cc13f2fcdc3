"""Fetched lines: as many as asked for, side by side, none behind the buffer."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tir

from tvm_fusionx.schedules.parts.prefetch import elements_of_a_line, fetched, fetched_lines


def _elements(statements: list[tir.Evaluate]) -> list[int]:
    """Return the element of each statement's line, as if the buffer were flat."""
    found: list[int] = []

    def visit(node: object) -> None:
        if isinstance(node, tir.BufferLoad):
            found.append(int(tvm.arith.Analyzer().simplify(node.indices[0])))

    for each in statements:
        tir.stmt_functor.post_order_visit(each, visit)
    return found


def _function(body: tir.Stmt, *buffers: tir.Buffer) -> tir.PrimFunc:
    params = [tir.Var(buffer.name, "handle") for buffer in buffers]
    return tir.PrimFunc(params, body, buffer_map=dict(zip(params, buffers, strict=True)))


@pytest.mark.parametrize(("dtype", "elements"), [("float32", 16), ("float16", 32), ("int8", 64)])
def test_elements_of_a_line(dtype: str, elements: int) -> None:
    assert elements_of_a_line(dtype) == elements


@pytest.mark.parametrize(
    ("place", "lines", "expected"),
    [(0, 3, [0, 16, 32]), (40, 2, [40, 56]), (500, 1, [240]), (230, 2, [224, 240]), (9, 0, [])],
    ids=["first", "inside", "behind", "over the end", "none"],
)
def test_lines_stay_in_the_buffer(place: int, lines: int, expected: list[int]) -> None:
    buffer = tir.decl_buffer([4, 64], "float32")
    assert _elements(fetched_lines(buffer, tir.const(place, "int64"), lines)) == expected


def test_a_buffer_smaller_than_the_lines_is_fetched_from_its_beginning() -> None:
    buffer = tir.decl_buffer([20], "float32")
    assert _elements(fetched_lines(buffer, tir.const(7, "int64"), 2)) == [0, 16]


@pytest.mark.parametrize(
    ("target", "instruction"),
    [("llvm -mcpu=znver3", "prefetcht1"), ("llvm -mtriple=aarch64-linux-gnu", "prfm\tpldl2keep")],
)
def test_processors_fetch_into_the_second_level(target: str, instruction: str) -> None:
    data, out = (tir.decl_buffer([64], "float32", name) for name in ("data", "out"))
    body = tir.SeqStmt([fetched(data, [32]), tir.BufferStore(out, data[0], [0])])
    assert instruction in tvm.build(_function(body, data, out), target=target).get_source("asm")


def test_to_fetch_changes_nothing() -> None:
    data, out = (tir.decl_buffer([64], "float32", name) for name in ("data", "out"))
    body = tir.SeqStmt([fetched(data, [32]), tir.BufferStore(out, data[5], [0])])
    given, found = (
        tvm.nd.array(np.arange(64, dtype="float32")),
        tvm.nd.array(np.zeros(64, "float32")),
    )
    tvm.build(_function(body, data, out), target="llvm")(given, found)
    assert found.numpy()[0] == 5
