"""One pass over the calibration set: a histogram of every tensor that may be quantised."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tvm_fusionx.compress.quantize.histogram import Histogram
from tvm_fusionx.compress.quantize.model_graph import ModelGraph, with_outputs
from tvm_fusionx.compress.quantize.placement import MOVES, moved_from
from tvm_fusionx.compress.quantize.runner import runner
from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.compress.quantize.units import SUM, Unit
from tvm_fusionx.errors import InputError

Stage = Callable[[str], None]
"""Told what is being done, in words; what is counted as ``N of M``."""


def tensors_to_observe(graph: ModelGraph, units: Sequence[Unit]) -> list[str]:
    """Return the tensors that some set of units has quantised: no other has a histogram.

    They are what a fused program stores: what a layer makes before its activation, or the scores
    before a softmax, are not among them.
    """
    nodes = {node.name: node for node in graph.nodes}
    found: dict[str, None] = {}
    for unit in units:
        for position in unit.data if unit.kind != SUM else ():
            tensor = str(nodes[unit.name].input[position])
            found[moved_from(graph, tensor)] = None
            while (made := graph.producers.get(tensor)) is not None and made.op_type in MOVES:
                tensor = str(made.input[0])
                found[moved_from(graph, tensor)] = None
    return [name for name in found if graph.is_activation(name)]


def observe(
    graph: ModelGraph,
    tensors: Sequence[str],
    samples: Samples,
    engine: str,
    on_stage: Stage,
) -> dict[str, Histogram]:
    """Return the histogram of each tensor over all samples; one sample's tensors are in memory.

    Raises
    ------
    InputError
        A tensor takes a value that is not finite.
    """
    histograms = {name: Histogram() for name in tensors}
    given = {info.name for info in graph.inputs}
    computed = [name for name in tensors if name not in given]
    run = runner(with_outputs(graph.model, computed), engine) if computed else None
    for number, sample in enumerate(samples):
        on_stage(f"ranges of {len(tensors)} tensors, sample {number + 1} of {len(samples)}")
        values = dict(zip(computed, run(sample), strict=True)) if run is not None else {}
        for name, histogram in histograms.items():
            value = values[name] if name in values else sample[name]
            if not np.isfinite(value).all():
                raise InputError(
                    f"calibration sample {number}",
                    expected=f"finite numbers in every tensor that is quantised, {name!r} too",
                    found="NaN or infinity",
                    next_step="Leave that sample out, or look for what makes it.",
                )
            histogram.add(value)
    return histograms
