"""From a line of text in a picture to its characters, as PP-OCRv4's recogniser reads them.

The recogniser looks at a line of fixed height and gives, for every few columns, the chance of each
character and of none: connectionist temporal classification (Graves et al., ICML 2006). Equal
characters in a row are one, and "none" stands between two that are meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_fusionx.errors import ModelError
from tvm_fusionx.zoo.packages import import_zoo_package
from tvm_fusionx.zoo.pictures import Picture, ocr_input

LINE_HEIGHT = 48

# The recogniser's file carries its characters under this name, one a line.
CHARACTERS_ENTRY = "character"
NONE = 0


@dataclass(frozen=True)
class TextLine:
    """What stands in a line.

    Attributes
    ----------
    text
        Its characters; empty where none was seen.
    score
        Mean chance of the characters, between 0 and 1; 0 where there are none.
    """

    text: str
    score: float


def line_characters(path: str | Path) -> tuple[str, ...]:
    """Return the character of each class of a recogniser's ONNX file; that of `NONE` is empty.

    Raises
    ------
    ModelError
        The file does not carry its characters.
    MissingDependencyError
        If onnx is not installed.
    """
    onnx: Any = import_zoo_package("onnx")
    entries = {entry.key: entry.value for entry in onnx.load(str(path)).metadata_props}
    if CHARACTERS_ENTRY not in entries:
        raise ModelError(
            f"recogniser {Path(path).name}",
            expected=f"its characters under the metadata {CHARACTERS_ENTRY!r}",
            found=f"the entries {sorted(entries)}",
            next_step="Take the file of the package rapidocr-onnxruntime, which has them.",
        )
    # The space comes last, and in no line.
    return ("", *entries[CHARACTERS_ENTRY].split("\n"), " ")


def line_input(picture: Picture, widths: Sequence[int]) -> npt.NDArray[np.float32]:
    """Return a line as the recogniser takes it: ``(1, 3, 48, width)``, normalised, rest zero.

    Parameters
    ----------
    picture
        The line alone, ``(height, width, 3)`` uint8.
    widths
        Widths that there are programs for, ascending. The smallest that the line fits into is
        taken, and a line that is longer than all is squeezed into the largest.
    """
    image: Any = import_zoo_package("PIL.Image")
    height, width = picture.shape[:2]
    natural = max(1, round(width * LINE_HEIGHT / height))
    taken = next((each for each in widths if natural <= each), widths[-1])
    natural = min(natural, taken)
    scaled = np.asarray(image.fromarray(picture).resize((natural, LINE_HEIGHT)))
    made = np.zeros((1, 3, LINE_HEIGHT, taken), np.float32)
    made[..., :natural] = ocr_input(scaled)
    return made


def read_line(chances: npt.NDArray[np.float32], characters: Sequence[str]) -> TextLine:
    """Return the likeliest characters of a line, the best class at each place.

    Parameters
    ----------
    chances
        The recogniser's output: ``(places, classes)``; axes of size 1 in front are dropped.
    characters
        As :func:`line_characters` gives them.

    Raises
    ------
    ValueError
        There is not one character for each class.
    """
    places = chances.reshape(-1, chances.shape[-1])
    if places.shape[1] != len(characters):
        raise ValueError(f"expected {len(characters)} classes, found shape {chances.shape}")
    best = places.argmax(axis=1)
    is_new = np.concatenate([[True], best[1:] != best[:-1]]) & (best != NONE)
    text = "".join(characters[each] for each in best[is_new])
    sure = places.max(axis=1)[is_new]
    return TextLine(text.strip(), float(sure.mean()) if sure.size else 0.0)
