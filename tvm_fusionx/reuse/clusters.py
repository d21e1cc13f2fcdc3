"""The same in numpy: which rows are similar, and what their products are then."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_fusionx.reuse.layer import ReuseLayer

SINGLE = -1
"""The cluster of a segment that found no place."""


@dataclass(frozen=True)
class Clustered:
    """What was put together, of all rows.

    Attributes
    ----------
    clusters
        int32 ``[groups, segments, rows]``: the cluster of each row's segment, -1 for none.
    counts
        int32 ``[groups, segments]``: clusters.
    result
        float32 ``[N, O, H, W]``, without bias.
    """

    clusters: np.ndarray
    counts: np.ndarray
    result: np.ndarray

    @property
    def singles(self) -> int:
        """Segments that found no place in the clusters."""
        return int((self.clusters == SINGLE).sum())

    @property
    def computed_share(self) -> float:
        """Products that are computed, of those of the whole matrix.

        Shorter segments at the end of a run count as whole ones.
        """
        return float((self.counts.sum() + self.singles) / self.clusters.size)


def unfold(layer: ReuseLayer, data: np.ndarray) -> np.ndarray:
    """Return the rows of a layer's product, ``[N * pixels, columns]``.

    Parameters
    ----------
    data
        ``[N, C, H, W]``.
    """
    top, left, bottom, right = layer.padding
    image = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    rows, columns = layer.result
    parts = [
        image[
            :,
            :,
            h * layer.dilation[0] :: layer.strides[0],
            w * layer.dilation[1] :: layer.strides[1],
        ][:, :, :rows, :columns]
        for h in range(layer.kernel[0])
        for w in range(layer.kernel[1])
    ]
    return np.stack(parts, 1).transpose(0, 3, 4, 1, 2).reshape(-1, layer.columns)


def cluster(
    layer: ReuseLayer,
    data: np.ndarray,
    weights: np.ndarray,
    projections: np.ndarray,
    thresholds: np.ndarray,
) -> Clustered:
    """Return a layer's result where similar segments share a product.

    Parameters
    ----------
    data
        float32 ``[N, C, H, W]``.
    weights
        float32 ``[columns, O]``, rows in the order of the module's text.
    projections
        float32 ``[length, bits]``.
    thresholds
        float32 ``[segments, bits]``.
    """
    rows = unfold(layer, data).reshape(layer.groups, layer.rows, layer.columns)
    segments = layer.segments
    clusters = np.empty((layer.groups, len(segments), layer.rows), "int32")
    counts = np.empty((layer.groups, len(segments)), "int32")
    result = np.zeros((layer.groups, layer.rows, layer.channels), "float32")
    for group, matrix in enumerate(rows):
        for number, segment in enumerate(segments):
            last = segment.column + segment.length
            part = matrix[:, segment.column : last]
            codes = codes_of(part, projections[: segment.length], thresholds[number])
            found, count = _places(codes, layer.clusters)
            clusters[group, number], counts[group, number] = found, count
            weight = weights[segment.column : last]
            one = _representatives(part, found, count, takes_mean=layer.takes_mean) @ weight
            result[group] += np.where((found < 0)[:, None], part @ weight, one[found])
    shape = (layer.images, *layer.result, layer.channels)
    return Clustered(clusters, counts, result.reshape(shape).transpose(0, 3, 1, 2))


def codes_of(part: np.ndarray, projections: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return the code of each row of a segment: a bit for each projection above its threshold."""
    bits = (part @ projections > thresholds).astype("int64")
    codes: np.ndarray = bits @ (1 << np.arange(projections.shape[1]))
    return codes


def _places(codes: np.ndarray, limit: int) -> tuple[np.ndarray, int]:
    """Return the cluster of each code in the order of coming, and how many there are."""
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.empty(len(first), "int64")
    order[np.argsort(first)] = np.arange(len(first))
    found = order[inverse]
    return np.where(found < limit, found, SINGLE), min(limit, len(first))


def _representatives(
    part: np.ndarray, found: np.ndarray, count: int, *, takes_mean: bool
) -> np.ndarray:
    """Return what stands for each cluster: ``[count, length]``."""
    if not takes_mean:
        firsts = [int(np.argmax(found == number)) for number in range(count)]
        chosen: np.ndarray = part[firsts]
        return chosen
    placed = found >= 0
    sums = np.zeros((count, part.shape[1]), "float32")
    np.add.at(sums, found[placed], part[placed])
    members = np.bincount(found[placed], minlength=count)
    return sums / members[:, None].astype("float32")
