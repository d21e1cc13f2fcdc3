"""From a text detector's probability map to boxes around lines of text.

The post-processing of Differentiable Binarization (Liao et al., AAAI 2020), with PP-OCRv4's
published settings, for upright text: the boxes are parallel to the picture's edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_fusionx.zoo.packages import import_zoo_package
from tvm_fusionx.zoo.pictures import Picture

# PP-OCRv4's published settings: a pixel is text from the first on, a region from the second on.
PIXEL_THRESHOLD = 0.3
REGION_THRESHOLD = 0.5
# The network is trained on shrunken regions; this ratio of area to perimeter grows them back.
UNCLIP_RATIO = 1.6
MIN_SIDE_PIXELS = 3

BOX_COLOUR = (220, 30, 60)
BOX_LINE_PIXELS = 2


@dataclass(frozen=True)
class TextBox:
    """A line of text in a picture.

    Attributes
    ----------
    left, top, right, bottom
        In pixels; right and bottom excluded.
    score
        Mean probability of the region's pixels.
    """

    left: int
    top: int
    right: int
    bottom: int
    score: float


def find_text_boxes(probability: npt.NDArray[np.float32]) -> list[TextBox]:
    """Return the boxes of the lines of text, from the top down.

    Parameters
    ----------
    probability
        The detector's output: one float32 map of height by width, in ``[0, 1]``; axes of size 1
        in front are dropped.

    Raises
    ------
    ValueError
        The array is not one map.
    MissingDependencyError
        If scipy is not installed.
    """
    height, width = probability.shape[-2:] if probability.ndim > 1 else (0, 0)
    if height * width != probability.size or not probability.size:
        raise ValueError(f"expected one map of height by width, found shape {probability.shape}")
    pixels = probability.reshape(height, width)
    ndimage: Any = import_zoo_package("scipy.ndimage")
    labels, _ = ndimage.label(pixels > PIXEL_THRESHOLD, structure=np.ones((3, 3)))
    boxes = []
    for number, (rows, columns) in enumerate(ndimage.find_objects(labels), start=1):
        inside = labels[rows, columns] == number
        tall, wide = rows.stop - rows.start, columns.stop - columns.start
        score = float(pixels[rows, columns][inside].mean())
        if score < REGION_THRESHOLD or min(tall, wide) < MIN_SIDE_PIXELS:
            continue
        grow = round(tall * wide * UNCLIP_RATIO / (2 * (tall + wide)))
        boxes.append(
            TextBox(
                left=max(0, columns.start - grow),
                top=max(0, rows.start - grow),
                right=min(width, columns.stop + grow),
                bottom=min(height, rows.stop + grow),
                score=score,
            )
        )
    return sorted(boxes, key=lambda box: (box.top, box.left))


def draw_boxes(picture: Picture, boxes: Sequence[TextBox]) -> Picture:
    """Return a copy of `picture` (``(height, width, 3)`` uint8, RGB) with the boxes drawn on it.

    Raises
    ------
    MissingDependencyError
        If Pillow is not installed.
    """
    image_module: Any = import_zoo_package("PIL.Image")
    draw_module: Any = import_zoo_package("PIL.ImageDraw")
    image = image_module.fromarray(picture)
    pen = draw_module.Draw(image)
    for box in boxes:
        corners = (box.left, box.top, box.right - 1, box.bottom - 1)
        pen.rectangle(corners, outline=BOX_COLOUR, width=BOX_LINE_PIXELS)
    drawn: Picture = np.array(image, dtype=np.uint8)
    return drawn
