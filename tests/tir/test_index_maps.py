"""Index maps between stages, and the roles of a dot product's axes."""

from __future__ import annotations

import pytest
from tvm import relay, tir

from tests.relay_modules import var
from tests.schedules.blocked_blocks import describe
from tests.schedules.matrix_blocks import packed_dense
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.index_maps import (
    dot_axes,
    index_path,
    is_contiguous_along,
    lie_in_one_piece,
    needs_panels,
    single_access,
)
from tvm_fusionx.tir.inline import inline_spatial


def test_roles_of_a_batched_product() -> None:
    stage = describe(relay.nn.batch_matmul(var("x", 2, 5, 3), var("y", 2, 7, 3))).anchor
    assert stage is not None
    axes = dot_axes(stage)
    assert axes is not None
    assert (axes.batch, axes.m, axes.n, axes.k) == ((0,), (1,), (2,), (3,))
    assert needs_panels(stage) is not None


def test_packed_weights_are_read_in_order() -> None:
    stage = describe(packed_dense(4, 32, 6)).anchor
    assert stage is not None
    axes = dot_axes(stage)
    assert axes is not None
    assert is_contiguous_along(axes.right, stage.iters[axes.n[0]].var)
    assert needs_panels(stage) is None


def test_the_path_of_an_output_to_what_it_reads() -> None:
    info = describe(relay.nn.softmax(var("x", 4, 16)))
    info = inline_spatial(fresh_schedule(info.func), info)
    (output,) = info.outputs
    maximum = info.reductions[0]
    path = index_path(info, output, maximum.name)
    assert path is not None
    assert [index for index in path if isinstance(index, tir.Var)] == [
        info.stages[output].iters[0].var
    ]


def test_two_different_reads_are_no_single_access() -> None:
    x = var("x", 8)
    info = describe(x + relay.reverse(x, axis=0))
    info = inline_spatial(fresh_schedule(info.func), info)
    stage = info.stages[info.outputs[0]]
    assert single_access(stage, stage.reads[0].data) is None


X = var("x", 4, 6, 5)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (relay.exp(X), True),
        (X + var("y", 4, 1, 1), True),
        (X + var("y", 1, 6, 1), False),
        (X + var("y", 5), False),
        (relay.exp(relay.transpose(X, (0, 2, 1))), False),
        (relay.exp(relay.strided_slice(X, [0, 0, 1], [4, 6, 4])), False),
        (relay.exp(relay.strided_slice(X, [1, 0, 0], [3, 6, 5])), True),
    ],
    ids=["same", "one a plane", "one a row", "one row", "turned", "columns cut", "planes cut"],
)
def test_axes_whose_elements_lie_in_one_piece(body: relay.Expr, expected: bool) -> None:
    info = describe(body)
    info = inline_spatial(fresh_schedule(info.func), info)
    stage = info.stages[info.outputs[0]]
    assert lie_in_one_piece(stage, list(stage.iters[-2:])) is expected
