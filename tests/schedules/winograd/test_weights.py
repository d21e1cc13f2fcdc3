"""The kernel's own transform of weights is the compiler's."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.relay_modules import REASSOCIATING
from tvm_fusionx.expressions.minimal_filtering import FILTERINGS, panel_weights, transform_weights
from tvm_fusionx.schedules.parts.vectors import Vectors
from tvm_fusionx.schedules.winograd.weights import ReadyWeights

OUTPUTS, INPUTS, PANEL, LANES = 32, 6, 16, 8


@pytest.mark.parametrize("tile", FILTERINGS)
@pytest.mark.parametrize("fetches", [True, False])
def test_a_part_of_a_panel_is_transformed(tile: int, fetches: bool) -> None:
    array = np.random.default_rng(0).standard_normal((OUTPUTS, INPUTS, 3, 3)).astype("float32")
    ready = ReadyWeights(FILTERINGS[tile], 4, PANEL)
    packed = panel_weights(array, PANEL)
    weights = tir.decl_buffer(packed.shape, "float32", "weights")
    into = tir.decl_buffer((ready.size,), "float32", "into")
    vectors = Vectors(tir.ir_builder.create(), "float32")
    if fetches:
        with vectors.ib.for_range(0, 5, "share") as share:
            ready.fetch(vectors, weights, 1, 2, share, 5)
    ready.transform(vectors, weights, 1, 2, into, LANES)
    built = tvm.build(tir.PrimFunc([weights, into], vectors.ib.get()), target="llvm")
    found = tvm.nd.empty((ready.size,))
    built(tvm.nd.array(packed), found)
    expected = transform_weights(array, FILTERINGS[tile], PANEL)[1, :, 2:]
    points, channels, lanes = np.indices(expected.shape)
    places = ready.at(points, channels, lanes)
    difference = np.abs(found.numpy()[places] - expected).max()
    assert difference <= REASSOCIATING * np.abs(expected).max()
