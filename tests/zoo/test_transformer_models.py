"""The text models: the exported files agree with torch, and MiniLM understands sentences."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx
import pytest

from tests.zoo.networks.published import count, printed
from tvm_fusionx import zoo
from tvm_fusionx.zoo import transformer_models
from tvm_fusionx.zoo.recipe import WEIGHT_SEED

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
onnxruntime = pytest.importorskip("onnxruntime")

REASSOCIATION = 1e-5  # float32 sums in another order, relative to the largest output


class First(torch.nn.Module):
    """The first output of a model of transformers."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)[0]


def parameters_and_multiply_adds(make, names):
    """Return the counts of a text model at 128 tokens, without memory for its weights."""
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        model = make(0)
        ids = torch.zeros((1, 128), dtype=torch.int64)
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(**{name: torch.ones_like(ids) for name in names})
    return sum(p.numel() for p in model.parameters()), counter.get_total_flops() // 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "pooler", "parameters", "operations"),
    [
        # Devlin et al. 2019; the operations, two a multiply-add, as Sun et al. 2020 print them.
        pytest.param(
            transformer_models.make_bert_base, 768, "110M", "22.5G", marks=pytest.mark.slow
        ),
        # Sanh et al. 2019, table 3; half of BERT's layers.
        (transformer_models.make_distilbert, 0, "66M", "11.25G"),
        # Lan et al. 2020, table 1; BERT's layers, whose weights are shared.
        (transformer_models.make_albert, 768, "12M", "22.5G"),
        # Jiao et al. 2020, table 1.
        (transformer_models.make_tinybert, 312, "14.5M", "1.2G"),
        # Sun et al. 2020, table 4, whose operations are not of matrix products alone.
        pytest.param(
            transformer_models.make_mobilebert, 512, "25.3M", None, marks=pytest.mark.slow
        ),
        # OpenAI's own count of the smallest model; Radford et al. 2019 print no operations.
        (transformer_models.make_gpt2, 0, "124M", None),
    ],
)
def test_counts_are_the_published_ones(make, pooler, parameters, operations):
    # Without numbers to look at, transformers must be told that GPT-2's sentence is one; given a
    # mask, the others look at its numbers.
    is_causal = make is transformer_models.make_gpt2
    names = ("input_ids", "attention_mask") if is_causal else ("input_ids",)
    counted, multiply_adds = parameters_and_multiply_adds(make, names)
    # The papers count the square matrix of the pooler, which the zoo's models do without.
    assert counted + pooler * (pooler + 1) == printed(parameters)
    assert operations is None or 2 * multiply_adds == printed(operations)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "shape", "parameters", "multiply_adds"),
    [
        # Dosovitskiy et al. 2021, table 1; the operations as Touvron et al. 2021 print them.
        (transformer_models.make_vit, (1, 3, 224, 224), "86M", "17.6G"),
        # Radford et al. 2022 print 39M for encoder and decoder together, and no operations; this
        # is the sum over the encoder's matrices, its fixed positions included.
        (transformer_models.make_whisper_encoder, (1, 80, 3000), "8.2M", "18.5G"),
    ],
)
def test_counts_of_the_encoders(make, shape, parameters, multiply_adds):
    counted = count(lambda: First(make(0)), shape)
    assert counted.parameters == printed(parameters)
    assert counted.multiply_adds == printed(multiply_adds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make", "output"),
    [
        (
            "bert-base",
            partial(transformer_models.make_bert_base, WEIGHT_SEED),
            "last_hidden_state",
        ),
        (
            "mobilebert",
            partial(transformer_models.make_mobilebert, WEIGHT_SEED),
            "last_hidden_state",
        ),
        ("gpt2", partial(transformer_models.make_gpt2, WEIGHT_SEED), "logits"),
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
