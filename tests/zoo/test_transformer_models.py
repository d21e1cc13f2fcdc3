"""The text models: the exported files agree with torch, and MiniLM understands sentences."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
import pytest

from tvm_fusionx import zoo
from tvm_fusionx.zoo import catalog, transformer_models

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
onnxruntime = pytest.importorskip("onnxruntime")

REASSOCIATION = 1e-5  # float32 sums in another order, relative to the largest output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make", "output"),
    [
        (
            "bert-base",
            partial(transformer_models.make_bert_base, catalog.WEIGHT_SEED),
            "last_hidden_state",
        ),
        (
            "mobilebert",
            partial(transformer_models.make_mobilebert, catalog.WEIGHT_SEED),
            "last_hidden_state",
        ),
        ("gpt2", partial(transformer_models.make_gpt2, catalog.WEIGHT_SEED), "logits"),
    ],
)
def test_exported_file_agrees_with_torch(name, make, output, tmp_path):
    exported = zoo.export(name, tmp_path / "model.onnx")
    onnx.checker.check_model(str(exported.path))
    inputs = zoo.sample_inputs(exported)
    (found,) = onnxruntime.InferenceSession(str(exported.path)).run(None, inputs)
    assert found.std() > 0.1
    with torch.no_grad():
        tensors = {key: torch.from_numpy(value) for key, value in inputs.items()}
        expected = getattr(make()(**tensors), output).numpy()
    assert np.abs(found - expected).max() <= REASSOCIATION * np.abs(expected).max()


@pytest.mark.slow
def test_minilm_ranks_a_paraphrase_above_an_unrelated_sentence(tmp_path):
    try:
        exported = zoo.export("minilm", tmp_path / "minilm.onnx")
    except ImportError as error:
        pytest.skip(str(error))
    session = onnxruntime.InferenceSession(str(exported.path))

    def embed(text):
        inputs = zoo.sentence_inputs(text)
        (hidden,) = session.run(None, inputs)
        return zoo.mean_pooled(hidden, inputs["attention_mask"])

    sentence = embed("A man is eating food.")
    paraphrase = embed("Someone is having a meal.")
    unrelated = embed("The stock market fell sharply today.")
    # What the published model gives for this pair, to two digits: proof of the trained weights.
    assert zoo.cosine_similarity(sentence, paraphrase) == pytest.approx(0.69, abs=0.005)
    assert zoo.cosine_similarity(sentence, unrelated) < 0.1
