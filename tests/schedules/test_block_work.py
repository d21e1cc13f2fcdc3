"""What a block has to do at least, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import te, tir

from tests.recurrent_layers import USUAL, Numbers
from tests.recurrent_layers import unscheduled as unscheduled_layer
from tests.schedules.blocked_blocks import unscheduled
from tests.schedules.filter_blocks import filter_window, patterned, scattered
from tests.schedules.sparse_blocks import Window, dense, pruned, window
from tvm_fusionx.lowering import register
from tvm_fusionx.operators.recurrent_layer import GRU, Layer
from tvm_fusionx.schedules.block_work import Work, work_of
from tvm_fusionx.tir.dot_call import dot

ROWS, COLUMNS, DEPTH = 6, 10, 8
FLOAT_BYTES = 4


def _tensor(*shape: int, name: str = "x", dtype: str = "float32") -> Any:
    return te.placeholder(shape, dtype, name)


def _work(*tensors: Any) -> Work:
    return work_of(te.create_prim_func(list(tensors)))


def test_a_product_with_its_epilogue() -> None:
    x, w = _tensor(ROWS, DEPTH), _tensor(COLUMNS, DEPTH, name="w")
    bias = _tensor(COLUMNS, name="bias")
    step = te.reduce_axis((0, DEPTH), "k")
    product = te.compute((ROWS, COLUMNS), lambda i, j: te.sum(x[i, step] * w[j, step], axis=step))
    out = te.compute((ROWS, COLUMNS), lambda i, j: te.max(product[i, j] + bias[j], 0.0))
    found = _work(x, w, bias, out)
    points = ROWS * COLUMNS
    assert found.products == 2 * points * DEPTH
    assert found.flops == found.products + 2 * points
    assert found.instructions == points * DEPTH + 2 * points
    assert found.read_bytes == FLOAT_BYTES * (ROWS * DEPTH + COLUMNS * DEPTH + COLUMNS)
    assert found.written_bytes == FLOAT_BYTES * points


def test_what_a_row_shares_is_computed_once_a_row() -> None:
    x, variance = _tensor(ROWS, COLUMNS), _tensor(ROWS, name="variance")
    out = te.compute((ROWS, COLUMNS), lambda i, j: x[i, j] * te.rsqrt(variance[i] + 1e-5))
    found = _work(x, variance, out)
    assert found.divisions == 2 * ROWS
    assert found.instructions == ROWS + ROWS * COLUMNS


def test_a_scale_and_a_shift_are_one_instruction_and_no_sum_of_products() -> None:
    x, shift = _tensor(ROWS, COLUMNS), _tensor(COLUMNS, name="shift")
    found = _work(x, shift, te.compute((ROWS, COLUMNS), lambda i, j: x[i, j] * 2.0 + shift[j]))
    assert (found.flops, found.instructions) == (2 * ROWS * COLUMNS, ROWS * COLUMNS)
    assert found.products == 0


def test_a_function_counts_as_its_polynomial() -> None:
    x = _tensor(ROWS)
    exp = _work(x, te.compute((ROWS,), lambda i: te.exp(x[i])))
    tanh = _work(x, te.compute((ROWS,), lambda i: te.tanh(x[i])))
    # Six coefficients and what brings the argument into their range.
    assert exp.instructions > 10 * ROWS
    assert exp.divisions == 0
    assert tanh.divisions == ROWS


def test_a_function_without_a_polynomial_is_one_operation() -> None:
    x = _tensor(ROWS)
    assert _work(x, te.compute((ROWS,), lambda i: te.sin(x[i]))).instructions == ROWS


def test_a_dot_product_of_bytes_that_is_added_is_one_instruction() -> None:
    register()
    depth, steps = 4, 8
    x = _tensor(ROWS, steps * depth, dtype="uint8")
    w = _tensor(COLUMNS, steps, depth, name="w", dtype="int8")
    step = te.reduce_axis((0, steps), "k")
    out = te.compute(
        (ROWS, COLUMNS),
        lambda i, j: te.sum(
            dot(
                [x[i, step * depth + place] for place in range(depth)],
                [w[j, step, place] for place in range(depth)],
            ),
            axis=step,
        ),
    )
    found = _work(x, w, out)
    assert found.instructions == ROWS * COLUMNS * steps
    assert found.products == found.flops == 2 * depth * found.instructions
    assert found.read_bytes == ROWS * steps * depth + COLUMNS * steps * depth


def test_a_gather_touches_what_it_reads() -> None:
    table, ids = _tensor(1000, COLUMNS, name="table"), _tensor(ROWS, name="ids", dtype="int32")
    found = _work(table, ids, te.compute((ROWS, COLUMNS), lambda i, j: table[ids[i], j]))
    assert found.read_bytes == FLOAT_BYTES * (ROWS * COLUMNS + ROWS)
    assert found.flops == 0


def test_padding_is_no_arithmetic() -> None:
    x = _tensor(ROWS)
    padded = te.compute(
        (ROWS + 2,), lambda i: tir.if_then_else(tir.all(i >= 1, i < ROWS + 1), x[i - 1], 0.0)
    )
    found = _work(x, padded)
    assert found.flops == 0
    assert (found.read_bytes, found.written_bytes) == (FLOAT_BYTES * ROWS, FLOAT_BYTES * (ROWS + 2))


# Instructions that apply the input's matrix to a column of a tile, and the output's.
APPLIED = {2: (4, 4), 4: (13, 10)}


@pytest.mark.parametrize("tile", [2, 4])
def test_of_minimal_filtering_products_and_what_its_matrices_take_count(tile: int) -> None:
    from tvm_fusionx.expressions.winograd import winograd_compute

    points, panel, size = (tile + 2) ** 2, 8, 8
    data, weights = _tensor(1, 2, size, size, 8), _tensor(2, points, 16, panel, name="w")
    out = winograd_compute(data, weights, tile, (1, 1, 1, 1), 8, "float32")
    tiles = (size // tile) ** 2
    found = _work(data, weights, out)
    assert found.products == 2 * tiles * points * 16 * 2 * panel
    span, of_rows, of_chunks = tile + 2, size // tile, 2 * panel
    of_input, of_output = APPLIED[tile]
    # Tiles above one another share no column of the input; those beside one another do.
    inputs = of_chunks * (of_rows * (size + 2) + tiles * span)
    outputs = of_chunks * (tiles * span + size * size // tile)
    assert found.instructions == found.products // 2 + of_input * inputs + of_output * outputs


@pytest.mark.parametrize("is_window", [False, True])
def test_a_sparse_product_counts_what_its_lists_hold(is_window: bool) -> None:
    case = Window(1, 16, 16, 5, 6)
    weight = pruned(16, case.columns, 8, 0.3)
    body, stored = window(case, weight, 8, 8) if is_window else dense(7, weight, 8, 8)
    places = 30 if is_window else 7
    stored_entries, groups = len(stored.values), 2
    work = work_of(unscheduled(body))
    assert work.products == 2 * -(-stored_entries // groups) * 16 * places
    assert work.products >= 2 * stored.values.size * places


@pytest.mark.parametrize("by_pattern", [False, True])
def test_filters_count_the_kernels_that_they_hold(by_pattern: bool) -> None:
    case = Window(1, 16, 16, 5, 6)
    weight = patterned(case, 0.5) if by_pattern else scattered(case, 0.3)
    body, stored = filter_window(case, weight, by_pattern=by_pattern)
    kernels, taps = stored.values.shape
    assert work_of(unscheduled(body)).products == 2 * -(-kernels // 16) * taps * 16 * 30


def test_a_recurrent_layer_multiplies_its_state_in_every_step() -> None:
    layer = Layer(GRU, 3, 2, 20, (False, True), USUAL[GRU])
    numbers = Numbers.drawn(layer)
    found = work_of(unscheduled_layer(layer, numbers))
    assert found.products == 2 * 3 * 2 * 2 * 3 * 20 * 20
    assert found.flops > found.products
    assert found.read_bytes == sum(each.nbytes for each in numbers.operands(layer))
    assert found.written_bytes == FLOAT_BYTES * (3 * 2 * 2 * 20 + 2 * 2 * 20)
