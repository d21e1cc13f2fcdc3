"""Conformer's encoder: the sum over its layers, and distances that are where they belong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.zoo.networks.published import count, printed

torch = pytest.importorskip("torch")
conformer = pytest.importorskip("tvm_fusionx.zoo.networks.conformer")


def test_counts_are_the_sum_over_its_layers() -> None:
    width = 144
    feed_forward = 8 * width**2 + 7 * width
    attention = 5 * width**2 + 8 * width
    convolution = 3 * width**2 + (32 + 8) * width
    block = 2 * feed_forward + attention + convolution + 2 * width
    first = (9 * width + width) + (9 * width**2 + width) + (20 * width**2 + width)
    counted = count(conformer.ConformerEncoder, (1, 80, 1000))
    assert counted.parameters == 16 * block + first
    assert counted.outputs == [(1, 250, 144)]
    # Table 1 has 10.3M with its decoder: an LSTM of 320 over embedded words, and the dense layer
    # that joins both and names one of about 1,000 words.
    words = 1000
    lstm = 4 * 320 * (320 + 320 + 2)
    decoder = words * 320 + lstm + (width + 1) * 320 + (320 + 1) * words
    assert counted.parameters + decoder == printed("10.3M")


def test_a_score_of_a_distance_stands_where_the_frames_are_so_far_apart() -> None:
    length = 5
    # Columns of what is shifted are the distances length - 1 to 1 - length.
    distances = torch.arange(length - 1, -length, -1.0).expand(1, 2, length, -1)
    shifted = conformer._shifted(distances, length)
    wanted = np.subtract.outer(np.arange(length), np.arange(length))
    assert shifted.shape == (1, 2, length, length)
    np.testing.assert_array_equal(shifted[0, 1].numpy(), wanted)
