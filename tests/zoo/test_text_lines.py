"""Lines of text are read: the characters of a file, the input, and what chances mean."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from tvm_fusionx.errors import ModelError
from tvm_fusionx.zoo import draw_text, export
from tvm_fusionx.zoo.text_lines import LINE_HEIGHT, line_characters, line_input, read_line

pytest.importorskip("PIL")

CHARACTERS = ("", "a", "b", " ")


def _chances(classes: list[int], sure: float = 0.7) -> np.ndarray:
    made = np.full((1, len(classes), len(CHARACTERS)), (1 - sure) / 3, "float32")
    made[0, np.arange(len(classes)), classes] = sure
    return made


@pytest.mark.parametrize(
    ("classes", "text"),
    [
        ([1, 1, 2], "ab"),
        ([1, 0, 1], "aa"),
        ([0, 0, 0], ""),
        ([3, 2, 3, 1, 3], "b a"),
        ([2], "b"),
    ],
)
def test_equal_ones_in_a_row_are_one_and_none_stands_between(classes: list[int], text: str) -> None:
    line = read_line(_chances(classes), CHARACTERS)
    assert line.text == text
    assert line.score == pytest.approx(0.7 if text else 0.0)


def test_a_class_without_a_character_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"expected 2 classes, found shape \(1, 1, 4\)"):
        read_line(_chances([1]), CHARACTERS[:2])


def test_a_line_keeps_its_shape_and_the_rest_is_zero() -> None:
    line = np.full((24, 100, 3), 255, "uint8")
    made = line_input(line, (160, 320))
    assert made.shape == (1, 3, LINE_HEIGHT, 320)
    assert (made[..., :200] == 1).all()
    assert not made[..., 200:].any()
    assert line_input(line[:, :50], (160, 320)).shape[-1] == 160
    # One that is too long is squeezed.
    assert (line_input(np.repeat(line, 9, axis=1), (160, 320)) == 1).all()


def _recogniser(path: Path, metadata: dict[str, str]) -> Path:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    graph = helper.make_graph([], "model", [value], [value])
    model = helper.make_model(graph)
    helper.set_model_props(model, metadata)
    save(model, path)
    return path


def test_the_file_says_its_characters(tmp_path: Path) -> None:
    path = _recogniser(tmp_path / "rec.onnx", {"character": "a\nb"})
    assert line_characters(path) == CHARACTERS
    without = _recogniser(tmp_path / "other.onnx", {"author": "me"})
    with pytest.raises(ModelError, match=r"recogniser other.onnx: expected its characters"):
        line_characters(without)


@pytest.mark.skipif(
    importlib.util.find_spec("rapidocr_onnxruntime") is None, reason="rapidocr is not installed"
)
def test_the_published_recogniser_reads_what_was_drawn(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    path = export("ppocr-rec", tmp_path / "rec.onnx").path
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    characters = line_characters(path)
    for text in ("tensor compiler", "3 rooms, 2 cats"):
        picture = draw_text((text,), 420, 60, font_size=40, margin=6)
        (chances,) = session.run(None, {"x": line_input(picture, (320, 640))})
        line = read_line(chances, characters)
        assert line.text == text
        assert line.score > 0.9
