"""What sparse products take on a GPU, counted by hand, and which tile takes least."""

from __future__ import annotations

from dataclasses import replace

from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.sparse.gpu_tiling import (
    LAUNCH_MULTIPLY_ADDS,
    Form,
    Issued,
    PlaneProduct,
    best_form,
    issued,
    place_choices,
    planes_multiply_adds,
    sparse_issued,
)

GPU = Gpu()

LARGE = PlaneProduct(
    images=1,
    rows=56,
    columns=56,
    groups=32,
    entries=2304,
    vectors=2,
    lanes=4,
    planed=0,
    lying_step=0,
)


def test_registers_bound_the_places_of_a_tile() -> None:
    assert place_choices(LARGE, GPU) == [1, 2, 4]
    assert place_choices(replace(LARGE, vectors=4), GPU) == [1, 2]
    assert place_choices(replace(LARGE, columns=3), GPU) == [1, 2]
    assert place_choices(replace(LARGE, vectors=9), GPU) == [1]


def test_a_tile_is_as_large_as_leaves_the_device_busy() -> None:
    assert best_form(LARGE, GPU) == Form(4, True)
    assert best_form(replace(LARGE, rows=7, columns=7), GPU) == Form(1, True)


def test_data_is_read_as_it_lies_where_planes_cost_more() -> None:
    few = replace(LARGE, entries=64, planed=1 << 20, lying_step=4)
    assert not best_form(few, GPU).in_planes
    assert best_form(replace(few, entries=2304, planed=1 << 12), GPU).in_planes


def test_what_a_product_takes() -> None:
    tiles = 56 * 14
    besides = planes_multiply_adds(1000)
    assert LAUNCH_MULTIPLY_ADDS < besides < LAUNCH_MULTIPLY_ADDS + 1000 * 8 * 20
    lying = replace(LARGE, planed=1000, lying_step=4)
    found = sparse_issued(lying, Form(4, False), GPU)
    assert found.multiply_adds == 2304 * tiles * 4 * 8
    # A quarter of a load of offsets, four of data, two of weights; of a list three, and eight sums.
    assert found.loads == 2304 * tiles * 6.25 + 32 * tiles * 11
    planes = sparse_issued(lying, Form(4, True), GPU)
    assert planes.multiply_adds == found.multiply_adds + besides
    assert planes.loads == 2304 * tiles * 3.25 + 32 * tiles * 11 + besides / 4


def test_work_items_that_are_too_few_wait() -> None:
    assert issued(100, 10, GPU.busy_items, GPU) == Issued(100, 10)
    assert issued(100, 10, GPU.busy_items // 4, GPU) == Issued(400, 40)


def test_two_products_are_compared_where_they_differ_least() -> None:
    dense = Issued(800, 100)
    assert Issued(100, 50).beside(dense) == (50, 100)
    assert Issued(400, 10).beside(dense) == (400, 800)
    assert Issued(1, 2).slots(4) == 9
