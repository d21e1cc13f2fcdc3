"""Products as a tiling counts them."""

from __future__ import annotations

from tests.schedules.sparse_blocks import Window
from tvm_fusionx.sparse.product_of import dense_product, window_product


def test_rows_of_a_matrix_are_columns_of_one_row() -> None:
    product = dense_product(128, 768, 4, 100, 2, 16)
    assert (product.images, product.rows, product.columns) == (1, 1, 128)
    assert product.is_in_place
    assert product.value_bytes == 100 * 2 * 16 * 4


def test_pixels_are_read_in_place_and_windows_gathered() -> None:
    pixels = Window(2, 16, 16, 5, 6, kernel=1, padding=(0, 0, 0, 0))
    product = window_product(2, pixels.geometry, 1, 8, 1, 16)
    assert (product.images, product.rows, product.columns) == (2, 1, 30)
    windows = Window(1, 16, 16, 9, 7, stride=2)
    product = window_product(1, windows.geometry, 1, 8, 1, 16)
    assert (product.rows, product.columns) == windows.geometry.result == (5, 4)
    assert not product.is_in_place
    assert product.gathered(5) == 11 * windows.geometry.row_step
