"""Products on a GPU, dense and sparse, as their templates compute them: what both take."""

from __future__ import annotations

from tvm_fusionx.expressions.sparse_products import Geometry
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.tile_plan import default_tile
from tvm_fusionx.sparse import Lists
from tvm_fusionx.sparse.gpu_tiling import (
    Issued,
    PlaneProduct,
    best_form,
    issued,
    sparse_issued,
)


def plane_product(
    images: int, pixels: int, length: int, geometry: Geometry | None, lists: Lists, lanes: int
) -> PlaneProduct:
    """Return the product of a weight's lists as a GPU computes it.

    Parameters
    ----------
    images
        One for a matrix.
    pixels
        Places of the result of an image; rows of a matrix.
    length
        Columns of the weight.
    geometry
        Of its windows; None where it is a product of matrices.
    lists, lanes
        Of groups, and the channels of a vector.
    """
    rows, columns, planed = 1, pixels, images * pixels * length
    lying_step = 1 if geometry is None and pixels == 1 else 0
    if geometry is not None and geometry.is_in_place:
        lying_step = geometry.lanes
    if geometry is not None and not geometry.is_in_place:
        rows, columns = geometry.result
        planed = images * geometry.gathered(rows, 0) * geometry.row_step
    return PlaneProduct(
        images=images,
        rows=rows,
        columns=columns,
        groups=lists.groups,
        entries=lists.entries,
        vectors=lists.width // lanes,
        lanes=lanes,
        planed=planed,
        lying_step=lying_step,
    )


def least_issued(product: PlaneProduct, gpu: Gpu) -> Issued:
    """Return what a sparse product takes in its best form."""
    return sparse_issued(product, best_form(product, gpu), gpu)


def dense_issued(
    places: int, channels: int, length: int, geometry: Geometry | None, gpu: Gpu
) -> Issued:
    """Return what the template ``gpu_tile`` takes for a whole product.

    Parameters
    ----------
    places, channels
        Of the result: all places, each with all channels.
    length
        Columns of the weight.
    geometry
        Of its windows over images in chunks; None where it is a product of matrices.
    """
    results = places * channels
    if geometry is None:
        height, width = places, channels
    else:
        height, width = geometry.result[1], gpu.lanes
    y, x = default_tile(height, width, results, gpu)
    items = results // (y * x)
    # For each place one number, for all of them a vector of weights.
    step = y + 1.0
    if geometry is not None and geometry.lanes == gpu.lanes and x > 1:
        # Of each place a chunk of channels at once.
        step = y / gpu.lanes + 1
    return issued(results * length, items * (length * step + y), items, gpu)
