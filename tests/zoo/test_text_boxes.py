from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.zoo.text_boxes import (
    BOX_COLOUR,
    PIXEL_THRESHOLD,
    REGION_THRESHOLD,
    TextBox,
    draw_boxes,
    find_text_boxes,
)

pytest.importorskip("scipy", reason="scipy is not installed: pip install scipy")


def a_map(*regions: tuple[int, int, int, int, float]) -> np.ndarray:
    """Return a (1, 1, 40, 60) map with rectangles (top, left, bottom, right) of a probability."""
    probability = np.zeros((1, 1, 40, 60), np.float32)
    for top, left, bottom, right, value in regions:
        probability[..., top:bottom, left:right] = value
    return probability


def test_regions_grow_back_by_area_over_perimeter() -> None:
    boxes = find_text_boxes(a_map((24, 10, 28, 40, 0.9), (10, 10, 14, 40, 0.8)))
    # 4 * 30 * 1.6 / 68 rounds to 3.
    assert [(box.left, box.top, box.right, box.bottom) for box in boxes] == [
        (7, 7, 43, 17),
        (7, 21, 43, 31),
    ]
    assert [round(box.score, 3) for box in boxes] == [0.8, 0.9]


def test_boxes_stay_inside_the_picture() -> None:
    (box,) = find_text_boxes(a_map((0, 0, 40, 60, 0.9)))
    assert (box.left, box.top, box.right, box.bottom) == (0, 0, 60, 40)


@pytest.mark.parametrize(
    "region",
    [
        (10, 10, 14, 40, PIXEL_THRESHOLD / 2),
        (10, 10, 14, 40, (PIXEL_THRESHOLD + REGION_THRESHOLD) / 2),
        (10, 10, 12, 40, 0.9),
    ],
    ids=["no pixel is text", "the region is unsure", "the region is a hair"],
)
def test_what_is_not_text_is_dropped(region: tuple[int, int, int, int, float]) -> None:
    assert find_text_boxes(a_map(region)) == []


@pytest.mark.parametrize("shape", [(2, 1, 4, 4), (16,), (0, 4)])
def test_another_shape_is_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="one map of height by width"):
        find_text_boxes(np.zeros(shape, np.float32))


def test_boxes_are_drawn_on_a_copy() -> None:
    pytest.importorskip("PIL", reason="Pillow is not installed: pip install pillow")
    page = np.full((40, 60, 3), 255, np.uint8)
    drawn = draw_boxes(page, [TextBox(5, 6, 30, 20, 1.0)])
    assert page.min() == 255
    assert tuple(drawn[6, 5]) == BOX_COLOUR
    assert tuple(drawn[19, 29]) == BOX_COLOUR
    assert tuple(drawn[12, 15]) == (255, 255, 255)
