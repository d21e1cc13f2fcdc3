"""Pictures for the vision models: text drawn on a page, normalised the way each model expects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_fusionx.zoo.packages import import_zoo_package

WHITE = 255
INK = (20, 20, 60)
LINE_GAP = 1.9  # line pitch in font sizes; far enough apart for a detector to separate the lines
# PP-OCR's own constants (its published pre-processing): (x / 255 - 0.5) / 0.5.
OCR_MEAN = (0.5, 0.5, 0.5)
OCR_STD = (0.5, 0.5, 0.5)
# The ImageNet statistics that ResNet and MobileNet were published with.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

# How far a moving scene goes from one frame to the next.
PIXELS_A_FRAME = 3

Picture = npt.NDArray[np.uint8]


def draw_text(
    lines: Sequence[str], width: int, height: int, font_size: int, margin: int = 12
) -> Picture:
    """Draw `lines` in dark ink on a white page; the same bytes every time.

    Parameters
    ----------
    lines
        The text, one entry a line, drawn from the top left.
    width, height, font_size, margin
        In pixels.

    Returns
    -------
    picture
        ``(height, width, 3)`` uint8, RGB.

    Raises
    ------
    MissingDependencyError
        If Pillow is not installed.
    """
    image_module: Any = import_zoo_package("PIL.Image")
    draw_module: Any = import_zoo_package("PIL.ImageDraw")
    font_module: Any = import_zoo_package("PIL.ImageFont")
    image = image_module.new("RGB", (width, height), (WHITE, WHITE, WHITE))
    pen = draw_module.Draw(image)
    font = font_module.load_default(size=font_size)
    for row, line in enumerate(lines):
        pen.text((margin, margin + int(row * font_size * LINE_GAP)), line, fill=INK, font=font)
    picture: Picture = np.array(image, dtype=np.uint8)
    return picture


def normalised(
    picture: Picture, mean: Sequence[float], std: Sequence[float]
) -> npt.NDArray[np.float32]:
    """Turn an ``(h, w, 3)`` uint8 picture into a ``(1, 3, h, w)`` float32 network input."""
    scaled = picture.astype(np.float32) / WHITE
    centred = (scaled - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    return np.ascontiguousarray(centred.transpose(2, 0, 1)[None]).astype(np.float32)


def ocr_input(picture: Picture) -> npt.NDArray[np.float32]:
    """Turn an ``(h, w, 3)`` uint8 picture into ``(1, 3, h, w)`` float32 as PP-OCR takes it."""
    return normalised(picture, OCR_MEAN, OCR_STD)


def page_for_detection(height: int, width: int) -> npt.NDArray[np.float32]:
    """Return a normalised page of four lines of text, as PP-OCR detection takes it."""
    lines = ("Fused kernels", "run this model", "on two cores:", "12.5 ms, 75 blocks")
    picture = draw_text(lines, width, height, font_size=30, margin=24)
    return ocr_input(picture)


def line_for_recognition(height: int, width: int) -> npt.NDArray[np.float32]:
    """Return one normalised line of text that fills the height, as PP-OCR recognition takes it."""
    picture = draw_text(("tensor compiler",), width, height, font_size=36, margin=4)
    return ocr_input(picture)


def scene_for_classification(height: int, width: int) -> npt.NDArray[np.float32]:
    """Return a picture with gradients, a disc and text, under ImageNet's normalisation."""
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float32)
    picture = draw_text(("a picture", "with text"), width, height, font_size=28).astype(np.float32)
    shade = np.stack([rows / height, columns / width, 1 - rows / height], axis=-1)
    distance = np.hypot(rows - height * 2 / 3, columns - width / 2)
    disc = (distance < min(height, width) / 4).astype(np.float32)[..., None]
    mixed = picture * (0.4 + 0.6 * shade) * (1 - 0.7 * disc)
    return normalised(np.clip(mixed, 0, WHITE).astype(np.uint8), IMAGENET_MEAN, IMAGENET_STD)


def grey_scene(height: int, width: int) -> npt.NDArray[np.float32]:
    """Return the classifiers' picture as one channel: ``(1, 1, height, width)`` float32."""
    return scene_for_classification(height, width).mean(axis=1, keepdims=True)


def moving_scene(frames: int, height: int, width: int) -> npt.NDArray[np.float32]:
    """Return the classifiers' picture moving sideways: ``(1, 3, frames, height, width)``."""
    still = scene_for_classification(height, width)
    return np.stack([np.roll(still, PIXELS_A_FRAME * t, axis=-1) for t in range(frames)], axis=2)
