"""Rows that are not summed: which loops cores share, and what is read while it is in cache."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relay, tir
from tvm.target import Target

from tests.relay_modules import EXACT, TARGET, module, var
from tests.schedules.blocked_blocks import assert_computes, unscheduled
from tvm_fusionx.layout.blocked_sampling import SAMPLE_BLOCKED, register_sampling
from tvm_fusionx.schedules import resolve_target, schedule

CORES = 2


def _loops(body: relay.Expr) -> list[tuple[Any, int]]:
    """Return kind and extent of the loops around the last stage, units left out."""
    target = Target(f"llvm -mcpu=x86-64-v3 -num-cores={CORES}")
    made = schedule(unscheduled(body), target, template="rows")
    assert (made.template, made.fallback_reason) == ("rows", None)
    sch = tir.Schedule(tvm.IRModule({"main": made.func}))
    loops = map(sch.get, sch.get_loops(sch.get_child_blocks(sch.get_block("root"))[-1]))
    return [(loop.kind, int(loop.extent)) for loop in loops if int(loop.extent) > 1]


PARALLEL, SERIAL = tir.ForKind.PARALLEL, tir.ForKind.SERIAL
VECTOR = tir.ForKind.VECTORIZED


def _plain(chunks: int, rows: int, columns: int) -> relay.Expr:
    return relay.layout_transform(var("x", 1, chunks, rows, columns, 8), "NCHW8c", "NCHW")


def _turned(columns: int) -> relay.Expr:
    turned = relay.transpose(var("x", 1, 16, columns, 52, 8), (0, 1, 3, 2, 4))
    return relay.exp(turned) + var("y", 1, 16, 1, 1, 8)


def test_the_innermost_of_many_short_rows_has_a_loop_of_its_own() -> None:
    assert _loops(_turned(104)) == [(PARALLEL, 16 * 52), (SERIAL, 104), (VECTOR, 8)]


@pytest.mark.parametrize(("outer", "is_apart"), [(3, False), (4, True), (33, True)])
def test_rows_that_cores_would_not_share_evenly_are_one_loop(outer: int, is_apart: bool) -> None:
    kind, extent = _loops(relay.exp(var("x", outer, 1040, 24)))[0]
    assert (kind, extent) == (PARALLEL, outer if is_apart else outer * 1040)


def test_channels_of_a_chunk_are_read_while_its_row_is_in_cache() -> None:
    assert _loops(_plain(32, 80, 80)) == [
        (PARALLEL, 32),
        (SERIAL, 80),
        (SERIAL, 8),
        (SERIAL, 10),
        (VECTOR, 8),
    ]


PLANES = 2000


def _biased(rows: int, columns: int) -> relay.Expr:
    return relay.exp(var("x", PLANES, rows, columns)) + var("y", PLANES, 1, 1)


def _sliced(shape: tuple[int, ...], steps: list[int]) -> relay.Expr:
    end = [PLANES, 3 * steps[1], 7]
    return relay.exp(relay.strided_slice(var("x", *shape), [0, 0, 0], end, steps))


def test_vectors_run_over_the_rows_of_a_small_plane() -> None:
    assert _loops(_biased(7, 7)) == [(PARALLEL, PLANES), (SERIAL, 7), (VECTOR, 8)]


# Of seven numbers, four and the last four.
SEVEN = [(SERIAL, 2), (VECTOR, 4)]
APART = {
    "rows of whole vectors": (_biased(3, 16), [(SERIAL, 2), (VECTOR, 8)]),
    "rows of many vectors": (_biased(3, 17), [(SERIAL, 3), (VECTOR, 8)]),
    "turned": (relay.exp(relay.transpose(var("x", PLANES, 7, 3), (0, 2, 1))), SEVEN),
    "rows left out": (_sliced((PLANES, 6, 7), [1, 2, 1]), SEVEN),
    "columns left out": (_sliced((PLANES, 3, 9), [1, 1, 1]), SEVEN),
    "other numbers for each row": (relay.exp(var("x", PLANES, 3, 7)) + var("y", 1, 3, 1), SEVEN),
}


@pytest.mark.parametrize("case", APART)
def test_rows_that_do_not_lie_side_by_side_stay_apart(case: str) -> None:
    body, columns = APART[case]
    assert _loops(body) == [(PARALLEL, PLANES), (SERIAL, 3), *columns]


def _repeated(heads: int, times: int, rows: int) -> relay.Expr:
    data = relay.exp(var("x", heads, 1, rows, 64))
    return relay.tile(data, (1, times, 1, 1)) + var("y", 1, 1, rows, 64)


def test_what_a_tiling_repeats_is_read_once() -> None:
    assert _loops(_repeated(8, 4, 128)) == [
        (PARALLEL, 8 * 128),
        (SERIAL, 4),
        (SERIAL, 8),
        (VECTOR, 8),
    ]


def _sampled(*image: int, batch: int = 1) -> relay.Expr:
    """Return samples at 9 x 20 places of an image, in NCHW or, of five axes, in chunks."""
    register_sampling()
    attrs = tvm.ir.make_node(
        "relay.attrs.GridSampleAttrs",
        method="bilinear",
        layout="NCHW",
        padding_mode="border",
        align_corners=False,
    )
    name = "image.grid_sample" if len(image) == 3 else SAMPLE_BLOCKED
    operands = [var("x", batch, *image), var("g", batch, 2, 9, 20)]
    return relay.Call(relay.op.get(name), operands, attrs)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_place_that_is_computed_serves_all_chunks(batch: int) -> None:
    expected = [(PARALLEL, batch * 9 * 20), (SERIAL, 48), (VECTOR, 8)]
    assert _loops(_sampled(48, 12, 12, 8, batch=batch)) == expected
    # What follows, of another order of its operands, changes nothing.
    biased = var("b", 48, 1, 1, 8) + relay.exp(_sampled(48, 12, 12, 8, batch=batch))
    assert _loops(biased) == expected


def test_places_that_move_along_the_columns_do_not_order_rows() -> None:
    assert [extent for _, extent in _loops(_sampled(32, 12, 12))][:2] == [32, 9]


def test_places_computed_from_no_numbers_do_not_order_rows() -> None:
    large = relay.image.resize2d(var("x", 1, 32, 6, 6, 8), (9, 20), layout="NCHW8c", roi=None)
    assert _loops(large)[0][1] % 32 == 0


@pytest.mark.parametrize(
    "body",
    [
        _turned(13),
        _biased(7, 7),
        _biased(3, 5),
        _repeated(3, 2, 5),
        relay.tile(var("x", 3, 7), (2, 1)),
        _plain(32, 80, 80),
        _plain(4, 5, 10),
        _plain(3, 7, 3),
        relay.layout_transform(var("x", 2, 16, 9, 11), "NCHW", "NCHW8c"),
        _sampled(4, 12, 12, 8, batch=2),
        _sampled(3, 7, 5, 12),
        _sampled(3, 7, 5),
        relay.Tuple([biased := _plain(4, 6, 9) + var("b", 32, 1, 1), relay.exp(biased)]),
    ],
    ids=[
        "turned",
        "planes",
        "short rows",
        "tiling",
        "tiles of rows",
        "map",
        "ten columns",
        "three columns",
        "chunks",
        "samples of chunks",
        "samples of wide chunks",
        "samples",
        "two results",
    ],
)
def test_numbers_stay(body: relay.Expr) -> None:
    target = resolve_target(TARGET)
    made = schedule(unscheduled(body), target, template="rows")
    assert_computes(made.func, target, module(body), EXACT)


def test_channels_of_a_flat_image_are_read_while_their_pixels_are_in_cache() -> None:
    flat = relay.exp(relay.reshape(_plain(32, 80, 80), (1, -1)))
    assert _loops(flat) == [(PARALLEL, 32), (SERIAL, 25), (SERIAL, 8), (SERIAL, 32), (VECTOR, 8)]


@pytest.mark.parametrize("sides", [(80, 80), (7, 7), (17, 19), (5, 3)])
def test_flat_images_of_chunks_compute_what_plain_ones_do(sides: tuple[int, int]) -> None:
    test_numbers_stay(relay.nn.relu(relay.reshape(_plain(6, *sides), (1, -1))))


@pytest.mark.parametrize(
    ("columns", "loops"),
    [
        (65536, [(PARALLEL, 8), (SERIAL, 1024), (VECTOR, 8)]),
        (81920, [(PARALLEL, 10), (SERIAL, 1024), (VECTOR, 8)]),
        # Nothing divides it.
        (65537, [(SERIAL, 8193), (VECTOR, 8)]),
    ],
)
def test_columns_of_a_single_row_are_shared(columns: int, loops: list[tuple[Any, int]]) -> None:
    assert _loops(relay.exp(var("x", columns))) == loops
