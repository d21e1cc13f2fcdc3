"""The products that operators stand for, as a tiling counts them."""

from __future__ import annotations

from tvm_fusionx.expressions.sparse_products import Geometry
from tvm_fusionx.sparse.tiling import Product


def dense_product(
    rows: int, depth: int, groups: int, entries: int, vectors: int, lanes: int
) -> Product:
    """Return the product of a matrix ``[rows, depth]`` with lists of so many entries."""
    return Product(
        images=1,
        rows=1,
        columns=rows,
        groups=groups,
        entries=entries,
        vectors=vectors,
        lanes=lanes,
        row_elements=0,
        rows_shared=0,
        move=1,
        depth=depth,
        pixel_step=depth,
        turned_lanes=lanes if depth >= lanes else 1,
    )


def window_product(
    images: int, geometry: Geometry, groups: int, entries: int, vectors: int, lanes: int
) -> Product:
    """Return the product of windows over images with lists of so many entries."""
    rows, columns = geometry.result
    in_place = geometry.is_in_place
    return Product(
        images=images,
        rows=1 if in_place else rows,
        columns=rows * columns if in_place else columns,
        groups=groups,
        entries=entries,
        vectors=vectors,
        lanes=lanes,
        row_elements=0 if in_place else geometry.row_step,
        rows_shared=0 if in_place else geometry.gathered(1, 0) - geometry.moves[0],
        move=geometry.moves[0],
        depth=geometry.chunks * geometry.lanes,
        pixel_step=geometry.moves[1] * geometry.lanes,
        turned_lanes=geometry.lanes,
    )
