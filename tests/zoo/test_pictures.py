"""Drawn pictures: repeatable, with ink where text is, and normalised as the models expect."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.zoo import pictures

pytest.importorskip("PIL")


def test_text_is_dark_on_white_and_repeatable():
    picture = pictures.draw_text(["hello"], width=120, height=40, font_size=20)
    again = pictures.draw_text(["hello"], width=120, height=40, font_size=20)
    assert picture.shape == (40, 120, 3)
    np.testing.assert_array_equal(picture, again)
    dark = (picture.min(axis=-1) < 128).mean()
    assert 0.01 < dark < 0.5


def test_different_text_gives_a_different_picture():
    first = pictures.draw_text(["hello"], width=120, height=40, font_size=20)
    second = pictures.draw_text(["world"], width=120, height=40, font_size=20)
    assert (first != second).any()


def test_normalised_is_channels_first_and_scaled():
    picture = np.zeros((2, 3, 3), np.uint8)
    picture[0, 1, 2] = 255
    result = pictures.normalised(picture, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    assert result.shape == (1, 3, 2, 3)
    assert result.dtype == np.float32
    assert result[0, 2, 0, 1] == 1
    assert result.min() == -1


def test_an_input_of_ocr_lies_between_minus_one_and_one():
    picture = pictures.draw_text(["hello"], width=120, height=40, font_size=20)
    result = pictures.ocr_input(picture)
    assert result.shape == (1, 3, 40, 120)
    assert result.max() == 1
    assert -1 <= result.min() < -0.8


@pytest.mark.parametrize(
    "draw",
    [
        pictures.page_for_detection,
        pictures.line_for_recognition,
        pictures.scene_for_classification,
    ],
)
def test_network_inputs_have_the_asked_size_and_contrast(draw):
    result = draw(64, 96)
    assert result.shape == (1, 3, 64, 96)
    assert result.std() > 0.1
