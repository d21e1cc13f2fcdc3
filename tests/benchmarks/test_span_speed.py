"""Questions are timed side by side, with a model that marks passages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.scripts import script
from tvm_fusionx.apps.answers import Answer

span_speed = script("span_speed")
questions = script("questions")

PASSAGE = "The red team won 20 games, and lost four."


class _Side:
    """Gives answers at a place, each a millisecond later than the one before."""

    def __init__(self, start: int, first_ms: float) -> None:
        self._start, self._ms = start, first_ms

    def ask(self, passage: str, question: str) -> Answer:
        self._ms += 1
        return Answer("", self._start, self._start + 3, self._ms)


def test_rows_have_medians_and_same_answers() -> None:
    asked = [questions.Question(PASSAGE, text, ("red",), text) for text in "abcde"]
    ours, same, other = span_speed.rows_of(
        {"ours": _Side(4, 0.0), "ort": _Side(4, 100.0), "openvino": _Side(8, 200.0)}, asked
    )
    # The first of six times is left out.
    assert (ours["side"], ours["question_ms"], ours["same_answers"]) == ("ours", 4.0, 5)
    assert (same["side"], same["question_ms"], same["same_answers"]) == ("ort", 104.0, 5)
    assert (other["question_ms"], other["same_answers"]) == (204.0, 0)
    assert other["spread"] >= 1


@pytest.mark.slow
def test_a_model_that_marks_is_written_and_runtimes_agree(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    pytest.importorskip("tokenizers")
    pytest.importorskip("onnxruntime")
    config = transformers.DistilBertConfig(
        vocab_size=40, dim=32, hidden_dim=64, n_heads=2, n_layers=1, attn_implementation="eager"
    )
    model = span_speed.draw_weights(transformers.DistilBertModel(config), 0)
    path = span_speed.write_model(tmp_path, model, [PASSAGE, "Who won?"], sequence=32)
    ours = span_speed.load_span_model(path, tmp_path / "tokenizer.json", folder=tmp_path / "kept")
    peer: Any = span_speed.Peer(ours.programs, span_speed.onnx_runtime(path, 1))
    theirs = span_speed.SpanModel(peer, ours.tokenizer)
    found, expected = (side.ask(PASSAGE * 3, "Who won?") for side in (ours, theirs))
    assert found.start is not None
    assert (found.start, found.end) == (expected.start, expected.end)
