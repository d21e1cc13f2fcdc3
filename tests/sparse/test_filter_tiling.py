"""Tilings of filters with zeros of their own: counted from the processor's row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.schedules.blocked_blocks import AVX2, AVX512, NEON
from tests.schedules.filter_blocks import filters_of, patterned, scattered
from tests.schedules.sparse_blocks import Window
from tvm_fusionx.expressions.sparse_filters import FilterPlanes
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.sparse.filter_tiling import (
    MOST_CODE,
    FilterProduct,
    best_filter_tiling,
    chains_for,
    filter_cycles,
    filter_product,
    kernel_cycles,
    lanes_for,
    most_vectors,
    part_choices,
    vector_choices,
)

CASE = Window(1, 32, 32, 14, 14)


def _product(cpu: Cpu, density: float = 0.2, *, by_pattern: bool = False) -> FilterProduct:
    weight = patterned(CASE, density) if by_pattern else scattered(CASE, density)
    filters = filters_of(CASE, weight, by_pattern=by_pattern)
    planes = FilterPlanes(CASE.geometry, CASE.height, filters.patterns)
    return filter_product(1, filters, planes, CASE.lanes, cpu)


@pytest.mark.parametrize("cpu", [NEON, AVX2, AVX512], ids=["NEON", "AVX2", "AVX512"])
@pytest.mark.parametrize("by_pattern", [False, True])
def test_the_best_tiling_is_a_choice(cpu: Cpu, by_pattern: bool) -> None:
    product = _product(cpu, by_pattern=by_pattern)
    best = best_filter_tiling(product, cpu)
    assert best.vectors in vector_choices(product, cpu)
    assert best.parts in part_choices(product, cpu)
    assert best.vectors < cpu.registers
    assert best.vectors * product.patterns * product.taps <= MOST_CODE


def test_places_of_all_rows_are_one_run() -> None:
    product = _product(NEON)
    assert product.positions == 13 * 16 + 14
    assert (product.vectors, product.pieces, product.chunks) == (56, 1, 4)


def test_fewer_numbers_take_fewer_cycles() -> None:
    found = []
    for density in (0.5, 0.25, 0.1):
        product = _product(NEON, density)
        found.append(filter_cycles(product, best_filter_tiling(product, NEON), NEON))
    assert found == sorted(found, reverse=True)


def test_vectors_are_no_wider_than_a_unit() -> None:
    narrow = replace(AVX512, multiply_add_bits=256)
    assert (lanes_for(narrow), lanes_for(replace(AVX512, multiply_add_bits=512))) == (8, 16)
    # Shorter than a line: those of a core whose units are narrow are whole.
    assert lanes_for(replace(NEON, multiply_add_bits=64)) == 4


def test_few_sums_take_turns() -> None:
    assert chains_for(1, NEON) > 1
    assert chains_for(most_vectors(_product(NEON), NEON), NEON) == 1


def test_operations_bound_a_kernel_where_loads_are_apart() -> None:
    product = _product(NEON)
    tiling = best_filter_tiling(product, NEON)
    assert kernel_cycles(product, tiling, NEON) > product.taps * tiling.vectors * 2.5 / 3
    folded = kernel_cycles(product, tiling, replace(NEON, multiplies_by_lane=False))
    assert folded < kernel_cycles(product, tiling, NEON)


def test_loads_that_cross_lines_bound_a_kernel() -> None:
    product = _product(AVX512)
    tiling = best_filter_tiling(product, AVX512)
    slow = kernel_cycles(product, tiling, replace(AVX512, loads_a_cycle=1))
    assert slow > product.taps * tiling.vectors
