"""Answers marked by a model: the best span of all windows, and refusals with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.apps.tiny_spans import write_model, write_random, write_tokenizer
from tvm_fusionx.apps.span_programs import SpanPrograms
from tvm_fusionx.apps.spans import MOST_TOKENS, SpanModel, best_span, load_span_model
from tvm_fusionx.errors import InputError, ModelError, TargetError

pytest.importorskip("tokenizers")

SEQUENCE = 16


def test_the_best_span_lies_in_the_passage_and_is_short() -> None:
    starts, ends = np.zeros(40), np.zeros(40)
    starts[0] = ends[1] = 9.0  # The question's.
    is_passage = [place >= 4 for place in range(40)]
    starts[5], ends[39] = 2.0, 3.0  # Too far apart.
    starts[20], ends[22], ends[19] = 1.5, 1.0, 4.0  # An end before its start.
    score, first, last = best_span(starts, ends, is_passage) or (0.0, 0, 0)
    assert 4 <= first <= last < first + MOST_TOKENS
    assert (score, first, last) == (6.0, 5, 19)
    assert best_span(starts, ends, [False] * 40) is None


def _lengths(model: SpanModel) -> list[str]:
    """Return what was compiled."""
    assert isinstance(model.programs, SpanPrograms)
    return sorted(path.name for path in model.programs.own_folder.iterdir())


@pytest.mark.slow
def test_answers_of_passages_of_any_length(tmp_path: Path) -> None:
    model = load_span_model(
        write_model(tmp_path / "spans.onnx"),
        write_tokenizer(tmp_path / "tokenizer.json"),
        folder=tmp_path / "kept",
        lengths=(8, SEQUENCE),
    )
    # Far behind the first window.
    passage = "they won. " * 12 + "who won? The  red\nteam won."
    found = model.ask(passage, "who won")
    assert found.text == "red\nteam"
    assert (found.start, found.end) == (passage.index("red"), passage.index(" won.", 120))
    assert found.milliseconds > 0
    assert _lengths(model) == ["tokens16"]
    short = model.ask("red team won.", "who")
    assert short.text == "red team"
    assert _lengths(model) == ["tokens16", "tokens8"]
    with pytest.raises(InputError, match="tokens for the passage"):
        model.ask(passage, "who " * 40)
    with pytest.raises(InputError, match="expected some text; found none"):
        model.ask(passage, " ")


@pytest.mark.slow
def test_an_answer_is_the_same_at_any_length(tmp_path: Path) -> None:
    write_random(tmp_path / "spans.onnx")
    tokenizer = write_tokenizer(tmp_path / "tokenizer.json")
    found = []
    for lengths in ((16,), (32, 64), (64,)):
        model = load_span_model(
            tmp_path / "spans.onnx", tokenizer, folder=tmp_path / "kept", lengths=lengths
        )
        found.append(model.ask("they won. who won? red team won.", "who won"))
    assert len({(each.start, each.end) for each in found}) == 1
    assert found[0].text
    assert _lengths(model) == ["tokens16", "tokens32", "tokens64"]


class _Told:
    """Notes what it is asked to run, and marks the first token of the passage."""

    names = ("input_ids", "attention_mask")

    def __init__(self) -> None:
        self.rows: list[dict[str, list[int]]] = []

    def length_for(self, tokens: int) -> int:
        return 8

    def prepare(self, length: int) -> None:
        assert length == 8

    def run(self, **inputs: np.ndarray) -> list[np.ndarray]:
        self.rows.append({name: row[0].tolist() for name, row in inputs.items()})
        return [np.zeros((1, 8))] * 2


def test_texts_are_filled_up_as_their_tokenizer_says(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    cutter = tokenizers.Tokenizer.from_file(str(write_tokenizer(tmp_path / "tokenizer.json")))
    told = _Told()
    SpanModel(told, cutter, {"pad_id": 1, "direction": "left"}).ask("red", "who")
    assert told.rows == [
        {"input_ids": [1, 1, 1, 2, 4, 3, 7, 3], "attention_mask": [0, 0, 0, 1, 1, 1, 1, 1]}
    ]
    cutter.enable_padding(length=32, pad_id=1, pad_token="[UNK]")
    cutter.save(str(tmp_path / "filled.json"))
    write_random(tmp_path / "spans.onnx")
    model = load_span_model(
        tmp_path / "spans.onnx", tmp_path / "filled.json", folder=tmp_path / "kept"
    )
    assert model.tokenizer.padding is None
    assert (model.padding["pad_id"], model.padding["pad_token"]) == (1, "[UNK]")


def test_other_files_are_refused(tmp_path: Path) -> None:
    tokenizer = write_tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(ModelError, match="expected an ONNX file; found no such file"):
        load_span_model(tmp_path / "none.onnx", tokenizer)
    model = write_model(tmp_path / "spans.onnx")
    with pytest.raises(ModelError, match=r"expected a tokenizer\.json"):
        load_span_model(model, model, folder=tmp_path / "kept")
    with pytest.raises(TargetError, match="this machine"):
        load_span_model(model, tokenizer, "llvm -mtriple=aarch64-linux-gnu")
