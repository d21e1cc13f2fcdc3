"""Clusters that calls share: found once, on the calibration set, their products constants.

Within a call, clusters are found anew and multiplied once each. Kept across calls nothing is
multiplied but segments whose code calibration did not see, and a result does not depend on the
calls before: what is kept never changes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable

import numpy as np

from tvm_fusionx.reuse.clusters import SINGLE, Clustered, codes_of, unfold
from tvm_fusionx.reuse.kept import MOST_KEPT, STORED, Kept
from tvm_fusionx.reuse.layer import ReuseLayer


def kept_products(layer: ReuseLayer, kept: Kept, weights: np.ndarray) -> np.ndarray:
    """Return the products of what is kept with weights ``[columns, O]``.

    float32 ``[segments, clusters, O]``, zeros behind those that there are.
    """
    found = np.zeros((layer.segment_count, kept.most, weights.shape[1]), "float32")
    for product, means, segment in zip(
        found, kept.by_segment(layer.length), layer.segments, strict=True
    ):
        weight = weights[segment.column : segment.column + segment.length]
        product[: len(means)] = means[:, : segment.length] @ weight
    return found


def keep(
    layer: ReuseLayer, images: Iterable[np.ndarray], projections: np.ndarray, thresholds: np.ndarray
) -> Kept:
    """Return the most frequent clusters of a layer's data.

    Parameters
    ----------
    layer
        How rows are cut.
    images
        The data, float32 ``[N, C, H, W]`` each.
    projections, thresholds
        As :func:`tvm_fusionx.reuse.clusters.cluster` takes them.
    """
    rows = np.concatenate([unfold(layer, data) for data in images])
    kept: list[tuple[int, ...]] = []
    means: list[np.ndarray] = []
    for number, segment in enumerate(layer.segments):
        part = rows[:, segment.column : segment.column + segment.length]
        codes = codes_of(part, projections[: segment.length], thresholds[number])
        found, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
        sums = np.zeros((len(found), layer.length))
        np.add.at(sums[:, : segment.length], inverse, part)
        often = np.sort(np.argsort(-counts, kind="stable")[:MOST_KEPT])
        kept.append(tuple(int(each) for each in found[often]))
        means.append((sums[often] / counts[often, None]).astype(STORED))
    text = base64.b64encode(np.concatenate(means).tobytes()).decode("ascii")
    return Kept(tuple(kept), text)


def look_up(
    layer: ReuseLayer,
    data: np.ndarray,
    weights: np.ndarray,
    projections: np.ndarray,
    thresholds: np.ndarray,
    kept: Kept,
) -> Clustered:
    """Return a layer's result where segments of a kept code take its product.

    Parameters
    ----------
    layer, data, weights, projections, thresholds
        As :func:`tvm_fusionx.reuse.clusters.cluster` takes them.
    kept
        Of this layer.
    """
    rows = unfold(layer, data)
    table, products = kept.table(layer.bits), kept_products(layer, kept, weights)
    clusters = np.empty((len(table), len(rows)), "int32")
    result = np.zeros((len(rows), layer.channels), "float32")
    for number, segment in enumerate(layer.segments):
        last = segment.column + segment.length
        part = rows[:, segment.column : last]
        codes = codes_of(part, projections[: segment.length], thresholds[number])
        found = clusters[number] = table[number, codes]
        single = part @ weights[segment.column : last]
        result += np.where((found == SINGLE)[:, None], single, products[number, found])
    shape = (layer.images, *layer.result, layer.channels)
    groups = clusters.reshape(len(table), layer.groups, layer.rows).transpose(1, 0, 2)
    counts = np.zeros(groups.shape[:2], "int32")
    return Clustered(groups, counts, result.reshape(shape).transpose(0, 3, 1, 2))
