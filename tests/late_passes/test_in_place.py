from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.script import tir as T  # noqa: N812

import tvm_fusionx as fx
from tests.late_passes.packed import packed
from tests.relay_modules import TARGET, const, module, var
from tvm_fusionx.build.fused_build import BUILT_FROM
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.late_passes.context import pass_context
from tvm_fusionx.late_passes.in_place import in_places_of

F32 = "float32"


@T.prim_func
def added(a: T.Buffer((4, 8), F32), b: T.Buffer((4, 8), F32), out: T.Buffer((4, 8), F32)) -> None:
    for i in T.parallel(4):
        for j in T.vectorized(8):
            out[i, j] = T.max(a[i, j] + b[i, j], T.float32(0))


@T.prim_func
def shifted(a: T.Buffer((9,), F32), out: T.Buffer((8,), F32)) -> None:
    for i in range(8):
        out[i] = a[i + 1]


@T.prim_func
def turned(a: T.Buffer((8, 8), F32), out: T.Buffer((8, 8), F32)) -> None:
    for i, j in T.grid(8, 8):
        out[i, j] = a[j, i]


@T.prim_func
def last_piece_moves_back(a: T.Buffer((10,), F32), out: T.Buffer((10,), F32)) -> None:
    for piece in range(2):
        for i in range(8):
            out[piece * 2 + i] = a[piece * 2 + i] * T.float32(2)


@T.prim_func
def twice(a: T.Buffer((8,), F32), out: T.Buffer((8,), F32)) -> None:
    for k, i in T.grid(2, 8):  # noqa: B007
        out[i] = a[i] + T.float32(1)


@T.prim_func
def tested(a: T.Buffer((10,), F32), out: T.Buffer((10,), F32)) -> None:
    for piece, i in T.grid(2, 8):
        if piece * 8 + i < 10:
            out[piece * 8 + i] = a[piece * 8 + i]


@T.prim_func
def read_again(
    a: T.Buffer((8,), F32), out: T.Buffer((8,), F32), other: T.Buffer((8,), F32)
) -> None:
    for i in range(8):
        out[i] = a[i] + T.float32(1)
    for i in range(8):
        other[i] = a[i]


@T.prim_func
def summed(a: T.Buffer((8,), F32), out: T.Buffer((8,), F32)) -> None:
    total = T.alloc_buffer((1,), F32)
    total[0] = T.float32(0)
    for i in range(8):
        total[0] = total[0] + a[i]
    for i in range(8):
        out[i] = a[i] / total[0]


@T.prim_func
def another_type(a: T.Buffer((8,), F32), out: T.Buffer((8,), "int32")) -> None:
    for i in range(8):
        out[i] = T.Cast("int32", a[i])


@T.prim_func
def kept_first(a: T.Buffer((8,), F32), out: T.Buffer((8,), F32)) -> None:
    kept = T.alloc_buffer((8,), F32)
    for i in range(8):
        kept[i] = a[i]
    for i in range(8):
        out[i] = kept[7 - i]


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (added, ((0, 2), (1, 2))),
        (tested, ((0, 1),)),
        (shifted, ()),
        (turned, ()),
        (last_piece_moves_back, ()),
        (twice, ()),
        (read_again, ()),
        (summed, ()),
        (another_type, ()),
        (kept_first, ()),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_can_be_proved(func: Any, expected: tuple[tuple[int, int], ...]) -> None:
    assert in_places_of(packed(func)) == expected


def test_a_loop_whose_pieces_threads_take_is_proved() -> None:
    @T.prim_func
    def wide(a: T.Buffer((999, 16), F32), out: T.Buffer((999, 16), F32)) -> None:
        for i in T.parallel(999):
            for j in T.vectorized(16):
                out[i, j] = a[i, j] * T.float32(3)

    target = tvm.target.Target("llvm -mcpu=haswell -num-cores=2")
    with pass_context(target):
        lowered = packed(wide, "llvm -mcpu=haswell -num-cores=2")
    assert "fusionx_take" in lowered.script()
    assert in_places_of(lowered) == ((0, 1),)


X, WHOLE = (1, 8, 14, 14), (1, 8, 16, 16)
BLOCKS: dict[str, Callable[[], relay.Expr]] = {
    "residual": lambda: relay.nn.relu(
        relay.nn.conv2d(var("x", *X), const(8, 8, 3, 3), padding=(1, 1)) + var("y", *X)
    ),
    "dense": lambda: relay.nn.dense(var("x", 24, 32), const(16, 32)) * relay.abs(var("y", 24, 16)),
    "rows": lambda: relay.nn.softmax(var("x", 4, 50) + var("y", 4, 50)),
    "channels": lambda: var("x", *WHOLE) * relay.abs(var("y", *WHOLE)) + const(1, 8, 1, 1),
    "turned": lambda: relay.transpose(var("x", 16, 24), (1, 0)) + var("y", 24, 16),
    "rolled": lambda: relay.reverse(var("x", 16, 32), 0) + var("y", 16, 32),
    "odd": lambda: relay.sqrt(var("x", 3, 37)) - var("y", 3, 37),
    "gathered": lambda: relay.take(var("x", 30), relay.cast(var("y", 30), "int32"), mode="clip"),
    "wide": lambda: relay.maximum(var("x", 513, 64), var("y", 513, 64)) * const(64),
}
# A row is read thrice for its softmax; a place that the data decide is any; the last vector of a
# row that no vector divides moves back, and computes some elements again.
NEVER_IN_PLACE = {"rows", "gathered", "odd"}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_result_over_an_operand_is_the_same_to_the_bit(name: str) -> None:
    library = fx.build(module(BLOCKS[name]()), TARGET)
    in_place = getattr(library, BUILT_FROM)[1].in_place
    graph = KernelGraph.from_json(library.get_graph_json())
    generator = np.random.default_rng(5)
    for node in graph.kernels:
        run = library.get_lib().get_function(node.function, True)
        tensors = [graph.nodes[n].outputs[at] for n, at in node.inputs] + [*node.outputs]
        values = [generator.standard_normal(each.shape).astype(each.dtype) for each in tensors]
        apart = [tvm.nd.array(value) for value in values]
        run(*apart)
        for operand, result in in_place.get(node.function, ()):
            shared = [tvm.nd.array(value) for value in values]
            shared[result] = shared[operand]
            run(*shared)
            np.testing.assert_array_equal(shared[result].numpy(), apart[result].numpy())
    assert bool(in_place) == (name not in NEVER_IN_PLACE), name
