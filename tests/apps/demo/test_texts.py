"""Work of the text model: the same text as without a page, and a stop between two tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.demo.tiny_page import tiny_model
from tvm_fusionx.apps.demo.asked import question_asked, text_asked
from tvm_fusionx.apps.demo.desk import Job
from tvm_fusionx.apps.demo.texts import question_work, text_model, text_work
from tvm_fusionx.apps.generate import generate
from tvm_fusionx.apps.kept_programs import FOLDER_VARIABLE
from tvm_fusionx.errors import InputError, ModelError


class _Heard(Job):
    """Keeps what is told, and stops itself after some pieces."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.pieces = pieces
        self.told: list[dict[str, object]] = []

    def tell(self, event: str, **fields: object) -> None:
        self.told.append({"event": event, **fields})
        if sum(each["event"] == "text" for each in self.told) == self.pieces:
            self.stop()


@pytest.mark.slow
def test_text_comes_in_pieces_until_a_stop() -> None:
    model = tiny_model()
    expected = list(generate(model, "once up", max_tokens=8))
    heard = _Heard(pieces=100)
    end = text_work(text_asked({"prompt": "once up", "max_tokens": 8}))(model, heard)
    told = [each for each in heard.told if each["event"] == "text"]
    assert "".join(str(each["text"]) for each in told) == "".join(expected)
    assert end["tokens"] == 8
    assert end["ended_by"] == "length"
    assert end["rate"] > 0
    assert end["first_token_ms"] > 0
    heard = _Heard(pieces=2)
    end = text_work(text_asked({"prompt": "once up", "max_tokens": 8}))(model, heard)
    assert end["tokens"] == 2
    chat = text_work(text_asked({"prompt": "once up", "max_tokens": 1, "chat": True}))
    assert chat(model, _Heard(9))["prompt_tokens"] > len(model.tokenizer.encode("once up"))


@pytest.mark.slow
def test_an_answer_is_told_with_what_is_around_it() -> None:
    passage = "the red team won. they \U0001f600 lost."
    end = question_work(question_asked({"passage": passage, "question": "who won"}))(
        tiny_model(), _Heard(9)
    )
    if end["is_found"]:
        assert end["before"] + end["text"] + end["after"] == passage
    else:
        assert end["before"] == passage
        assert end["after"] == ""
    assert end["milliseconds"] > 0


@pytest.mark.slow
def test_too_much_is_refused() -> None:
    asked = text_asked({"prompt": "zz " * 200, "max_tokens": 100})
    with pytest.raises(InputError, match="at most 256 tokens"):
        text_work(asked)(tiny_model(), _Heard(9))


def test_no_model_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="expected a GGUF file"):
        text_model(tmp_path / "none.gguf")


def test_what_is_wrong_inside_is_told_when_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gguf")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "kept"))
    (tmp_path / "odd.gguf").write_bytes(b"no model at all")
    stages: list[str] = []
    make = text_model(tmp_path / "odd.gguf")
    with pytest.raises(ModelError, match=r"odd\.gguf"):
        make(stages.append)
    assert stages == ["reading the model"]
