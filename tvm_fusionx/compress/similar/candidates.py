"""How similar the rows of a layer are on calibration data, for each way to put them together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvm_fusionx.compress.similar.layers import Layer
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.reuse.across_calls import keep, look_up
from tvm_fusionx.reuse.choice import LONGEST, MEAN, MOST_BITS, Choice
from tvm_fusionx.reuse.clusters import Clustered, cluster, unfold
from tvm_fusionx.reuse.cost import Found, ReuseCycles, reuse_cycles
from tvm_fusionx.reuse.layer import ReuseLayer

# Bits that are tried.
BITS = (3, 4, 6, 8, 10, MOST_BITS)

# Shortest segment that is tried: each costs as much beside its numbers as several of them.
SHORTEST = 8

# Room for more clusters than calibration found.
ROOM = 1.25


@dataclass(frozen=True)
class Candidate:
    """A way to put the rows of a layer together, and what it did on the calibration set.

    Attributes
    ----------
    choice
        The way.
    layer
        The layer with it, of the whole batch of a sample.
    computed_share
        Products that are computed, of all.
    error
        Of the layer's results: the root of the sum of squares of the differences, relative to that
        of the exact results.
    cycles, dense_cycles
        Estimates for what is built for.
    """

    choice: Choice
    layer: ReuseLayer
    computed_share: float
    error: float
    cycles: ReuseCycles
    dense_cycles: float

    @property
    def gain(self) -> float:
        """How many times faster than all products it should be."""
        return self.dense_cycles / max(1.0, self.cycles.total)

    @property
    def hashing_share(self) -> float:
        """Multiply-adds of hashing, of those of all products."""
        return self.choice.bits / self.layer.channels


def lengths_of(layer: Layer) -> tuple[int, ...]:
    """Return the lengths of segments to try: whole runs, pixels, and parts of them."""
    run, depth = layer.run_and_depth
    parts = {math.ceil(whole / part) for whole in (run, depth) for part in (1, 2, 4)}
    fitting = sorted(each for each in parts if SHORTEST <= each <= LONGEST)
    return tuple(fitting) or (min(run, LONGEST),)


def candidates_of(
    layer: Layer,
    samples: Sequence[np.ndarray],
    cpu: Cpu,
    *,
    per_batch: bool = False,
    representative: str = MEAN,
    bits: Iterable[int] = BITS,
    least_gain: float = 0,
    seed: int = 0,
    across_calls: bool = False,
) -> Iterator[Candidate]:
    """Yield each way to put a layer's rows together, with what it did.

    Ways whose hashing and sums alone take too long for `least_gain` are passed over.

    Parameters
    ----------
    samples
        The layer's data, as the ONNX model has it; at least two where calls share clusters.
    across_calls
        Whether calls share clusters: those of every second sample, judged on the others.
    """
    images = [layer.as_image(data) for data in samples]
    shown, images = (images[1::2], images[::2]) if across_calls else ([], images)
    weights, dense = layer.weights, layer.dense_cycles(cpu)
    mean = exact = None
    for length in lengths_of(layer):
        cuts = layer.columns_in(length)
        for count in bits:
            first = Choice(
                length,
                count,
                1 << MOST_BITS,
                representative,
                per_batch,
                ((0.0,) * count,) * len(cuts),
                seed,
            )
            plain = layer.reused(first)
            if dense < least_gain * reuse_cycles(plain, Found(0, 0), cpu).total:
                continue
            if mean is None:
                rows = [unfold(plain, image) for image in images]
                mean = np.mean([each.mean(0) for each in rows], 0)
                exact = [each @ weights for each in rows]
            assert exact is not None
            choice = replace(first, thresholds=_thresholds(first, cuts, mean))
            hashing = choice.projections(), choice.threshold_array()
            if across_calls:
                kept = keep(plain, shown, *hashing)
                choice = replace(choice, kept=kept)
                made = [look_up(plain, image, weights, *hashing, kept) for image in images]
            else:
                made = [cluster(plain, image, weights, *hashing) for image in images]
            yield _judged(layer, choice, made, exact, cpu, dense)


def _judged(
    layer: Layer,
    choice: Choice,
    made: Sequence[Clustered],
    exact: Sequence[np.ndarray],
    cpu: Cpu,
    dense: float,
) -> Candidate:
    if choice.kept is not None:
        limit = choice.kept.most
    else:
        most = max(int(each.counts.max()) for each in made)
        limit = min(1 << choice.bits, math.ceil(most * ROOM))
    choice = replace(choice, limit=limit)
    reused = layer.reused(choice)
    clusters = float(np.mean([each.counts.sum() for each in made]))
    singles = 0.0 if choice.kept is None else float(np.mean([each.singles for each in made]))
    wrong = right = 0.0
    for each, truth in zip(made, exact, strict=True):
        found = each.result.transpose(0, 2, 3, 1).reshape(truth.shape)
        wrong += float(np.square(found - truth).sum())
        right += float(np.square(truth).sum())
    return Candidate(
        choice,
        reused,
        float(np.mean([each.computed_share for each in made])),
        math.sqrt(wrong / right) if right else math.sqrt(wrong),
        reuse_cycles(reused, Found(clusters, singles), cpu),
        dense,
    )


def _thresholds(
    choice: Choice, cuts: Sequence[tuple[int, int]], mean: np.ndarray
) -> tuple[tuple[float, ...], ...]:
    """Return the projections of the mean of each segment: bits then tell what lies on each side."""
    projections = choice.projections()
    return tuple(
        tuple(float(each) for each in mean[first:last] @ projections[: last - first])
        for first, last in cuts
    )


def most_gain(layer: Layer, cpu: Cpu, bits: Iterable[int] = BITS) -> float:
    """Return how many times faster a layer would be if no product were left to compute."""
    least = min(bits)
    totals = []
    for length in lengths_of(layer):
        rows = ((0.0,) * least,) * len(layer.columns_in(length))
        choice = Choice(length, least, 1 << MOST_BITS, MEAN, False, rows)
        totals.append(reuse_cycles(layer.reused(choice), Found(0, 0), cpu).total)
    return layer.dense_cycles(cpu) / max(1.0, min(totals))


def best_of(candidates: Iterable[Candidate], max_error: float) -> Candidate | None:
    """Return the fastest way whose error is small enough; that of the least error if none is."""
    found = list(candidates)
    if not found:
        return None
    good = [each for each in found if each.error <= max_error]
    if good:
        return max(good, key=lambda each: each.gain)
    return min(found, key=lambda each: each.error)
