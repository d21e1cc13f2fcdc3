"""Programs of a model that marks answers: one a length, made when needed, kept, and refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.apps.tiny_spans import random_logits, write_model, write_random
from tvm_fusionx.apps.compiled_apart import load_compiled
from tvm_fusionx.apps.span_programs import LENGTHS, SpanPrograms, WantedSpans, model_digest
from tvm_fusionx.errors import ModelError


def _programs(folder: Path, stages: list[str], **choices: object) -> SpanPrograms:
    return SpanPrograms(
        folder / "spans.onnx",
        **{  # type: ignore[arg-type]
            "target": "llvm",
            "folder": folder / "kept",
            "lengths": (8, 16),
            "on_stage": stages.append,
            **choices,
        },
    )


@pytest.mark.slow
def test_a_length_is_made_when_it_is_needed_and_kept(tmp_path: Path) -> None:
    weights = write_random(tmp_path / "spans.onnx")
    stages: list[str] = []
    programs = _programs(tmp_path, stages)
    assert not programs.own_folder.exists()
    ids = [2, 4, 5, 3, 6, 7, 8]
    expected = random_logits(weights, ids)
    for length in (16, 8):
        row = np.zeros((2, 1, length), "int64")
        row[0, 0, : len(ids)], row[1, 0, : len(ids)] = ids, 1
        found = programs.run(input_ids=row[0], attention_mask=row[1])
        assert [each.shape for each in found] == [(1, length)] * 2
        ours = np.stack([each[0, : len(ids)] for each in found], axis=1)
        assert np.abs(ours - expected).max() <= 1e-5 * np.abs(expected).max()
        assert any(f"compiling for {length} tokens" in stage for stage in stages)
        assert (programs.own_folder / f"tokens{length}").is_dir()
    stages.clear()
    again = _programs(tmp_path, stages)
    again.prepare(8)
    again.prepare(8)
    assert stages == ["loading"]
    (library,) = load_compiled(again.own_folder / "tokens8")
    assert library.model == "spans.onnx"


def test_texts_go_to_the_least_length(tmp_path: Path) -> None:
    write_random(tmp_path / "spans.onnx")
    programs = _programs(tmp_path, [], lengths=LENGTHS)
    asked = (1, 64, 65, 129, 257, 384, 385)
    assert [programs.length_for(each) for each in asked] == [64, 64, 128, 256, 384, 384, 384]


def test_a_model_of_a_fixed_length_has_that_one(tmp_path: Path) -> None:
    write_random(tmp_path / "spans.onnx", 24)
    assert _programs(tmp_path, []).lengths == (24,)


@pytest.mark.slow
def test_a_model_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    path = _write_one_result(tmp_path / "spans.onnx")
    programs = _programs(tmp_path, [])
    with pytest.raises(ModelError, match=r"logits of starts and of ends, \(1, 8\) each; found"):
        programs.prepare(8)
    assert [*(tmp_path / "kept").iterdir()] == []
    write_model(path, ("input_ids", "pixels"))
    with pytest.raises(ModelError, match="found input_ids, pixels"):
        _programs(tmp_path, [])
    path.write_bytes(b"no model")
    with pytest.raises(ModelError, match="expected an ONNX file"):
        _programs(tmp_path, [])
    assert [*(tmp_path / "kept").iterdir()] == []


def _write_one_result(path: Path) -> Path:
    shape = [1, "tokens"]
    nodes = [helper.make_node("Cast", ["input_ids"], ["starts"], to=TensorProto.FLOAT)]
    graph = helper.make_graph(
        nodes,
        "one result",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, shape)],
        [helper.make_tensor_value_info("starts", TensorProto.FLOAT, shape)],
    )
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return path


def test_weights_beside_a_model_are_of_it(tmp_path: Path) -> None:
    path = tmp_path / "spans.onnx"
    write_random(path)
    options = {"save_as_external_data": True, "location": "weights.data", "size_threshold": 0}
    onnx.save(onnx.load(path), path, **options)
    first = model_digest(path)
    weights = tmp_path / "weights.data"
    held = bytearray(weights.read_bytes())
    held[0] ^= 1
    weights.write_bytes(held)
    assert model_digest(path) != first
    weights.unlink()
    with pytest.raises(ModelError, match=r"weights\.data: expected an ONNX file; found no such"):
        model_digest(path)


def test_a_model_that_was_replaced_is_told(tmp_path: Path) -> None:
    write_random(tmp_path / "spans.onnx")
    wanted = WantedSpans(
        model=str(tmp_path / "spans.onnx"),
        digest=model_digest(tmp_path / "spans.onnx"),
        target="llvm",
        folder=str(tmp_path / "made"),
        names=("input_ids", "attention_mask"),
        length=8,
    )
    write_random(tmp_path / "spans.onnx", seed=1)
    with pytest.raises(ModelError, match="the file was replaced meanwhile"):
        wanted.compile_here(lambda stage: None)
