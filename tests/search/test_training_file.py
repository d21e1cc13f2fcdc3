"""A training file is refused before anything runs, and nothing of it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.search.test_executor import TRAIN
from tvm_fusionx.errors import ModelError
from tvm_fusionx.search.training_file import check_training


@pytest.mark.parametrize(
    "text",
    [
        "raise RuntimeError\ndef train(candidate, trial):\n    return {}\n",
        "from elsewhere import learn as train",
        "from elsewhere import *",
        "train = lambda candidate, trial: {}",
        "if True:\n    def train(candidate, trial):\n        return {}",
    ],
)
def test_whatever_may_define_the_function_is_taken(tmp_path: Path, text: str) -> None:
    file = tmp_path / "learn.py"
    file.write_text(text)
    assert check_training(file) == file.resolve()


def test_an_example_is_taken() -> None:
    assert check_training(TRAIN) == TRAIN.resolve()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"def train(candidate, trial:\n", "found line 1: "),
        (b"x = 1\n\ny = = 2\n", "found line 3: invalid syntax"),
        (b"def trains(candidate, trial): ...", "found no train"),
        (b"\x00", "found "),
        (b"\xff\xfe", "found "),
        (None, "found no such file"),
    ],
)
def test_what_trains_nothing_is_refused(tmp_path: Path, content: bytes | None, found: str) -> None:
    file = tmp_path / "learn.py"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ModelError, match=found):
        check_training(file)
