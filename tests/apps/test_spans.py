"""Answers marked by a model: the best span of all windows, and refusals with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tvm_fusionx.apps.spans import MOST_TOKENS, best_span, load_span_model
from tvm_fusionx.errors import InputError, ModelError

tokenizers = pytest.importorskip("tokenizers")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "won", "they", "red", "team", "."]
SEQUENCE = 16
# The model begins answers at "red" and ends them at "team".
START, END = WORDS.index("red"), WORDS.index("team")


def _write_model(path: Path, names: tuple[str, ...] = ("input_ids", "attention_mask")) -> Path:
    """Write a model whose logits are 1 where a token begins or ends an answer, else 0."""
    nodes = []
    for name, token in (("starts", START), ("ends", END)):
        wanted = helper.make_tensor(f"{name}_token", TensorProto.INT64, [1], [token])
        nodes += [
            helper.make_node("Constant", [], [f"{name}_token"], value=wanted),
            helper.make_node("Equal", [names[0], f"{name}_token"], [f"{name}_is"]),
            helper.make_node("Cast", [f"{name}_is"], [f"{name}_float"], to=TensorProto.FLOAT),
            helper.make_node("Cast", [names[-1]], [f"{name}_mask"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"{name}_float", f"{name}_mask"], [name]),
        ]
    shape = ["batch", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in names]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("starts", "ends")
    ]
    graph = helper.make_graph(nodes, "spans", inputs, outputs)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return path


def _write_tokenizer(path: Path) -> Path:
    from tokenizers import models, pre_tokenizers, processors

    made = tokenizers.Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    made.save(str(path))
    return path


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


@pytest.mark.slow
def test_answers_of_passages_of_any_length(tmp_path: Path) -> None:
    model = load_span_model(
        _write_model(tmp_path / "spans.onnx"),
        _write_tokenizer(tmp_path / "tokenizer.json"),
        sequence=SEQUENCE,
    )
    # Far behind the first window.
    passage = "they won. " * 12 + "who won? The  red\nteam won."
    found = model.ask(passage, "who won")
    assert found.text == "red\nteam"
    assert (found.start, found.end) == (passage.index("red"), passage.index(" won.", 120))
    assert found.milliseconds > 0
    with pytest.raises(InputError, match="tokens for the passage"):
        model.ask(passage, "who " * 40)
    with pytest.raises(InputError, match="expected some text; found none"):
        model.ask(passage, " ")


def test_other_files_are_refused(tmp_path: Path) -> None:
    tokenizer = _write_tokenizer(tmp_path / "tokenizer.json")
    with pytest.raises(ModelError, match="expected an ONNX file; found none"):
        load_span_model(tmp_path / "none.onnx", tokenizer)
    odd = _write_model(tmp_path / "odd.onnx", ("input_ids", "pixels"))
    with pytest.raises(ModelError, match="found input_ids, pixels"):
        load_span_model(odd, tokenizer)
    with pytest.raises(ModelError, match=r"expected a tokenizer\.json"):
        load_span_model(odd, odd)
