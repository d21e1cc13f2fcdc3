"""Sentences to tokens, hidden states to an embedding."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.errors import InputError
from tvm_fusionx.zoo import sentences

# [CLS] and [SEP] of the uncased BERT vocabulary.
CLS_TOKEN, SEP_TOKEN = 101, 102


@pytest.fixture
def tokenizer():
    pytest.importorskip("tokenizers")
    try:
        sentences.find_packaged_file(sentences.MINILM_DISTRIBUTION, "tokenizer.json")
    except ImportError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("tokenizer")
def test_sentence_is_padded_to_the_sequence_length():
    inputs = sentences.sentence_inputs("Hello world")
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    assert ids.shape == mask.shape == (1, 128)
    assert ids.dtype == mask.dtype == np.int64
    # "hello" and "world" are single words of the vocabulary.
    np.testing.assert_array_equal(ids[0, :5], [CLS_TOKEN, 7592, 2088, SEP_TOKEN, 0])
    assert mask.sum() == 4


@pytest.mark.usefixtures("tokenizer")
def test_long_text_is_cut():
    inputs = sentences.sentence_inputs("word " * 50, sequence_length=16)
    assert inputs["input_ids"].shape == (1, 16)
    assert inputs["attention_mask"].all()
    assert inputs["input_ids"][0, -1] == SEP_TOKEN


def test_empty_sentence_is_refused():
    with pytest.raises(InputError, match="at least one word"):
        sentences.sentence_inputs("  ")


def test_padding_does_not_change_the_embedding():
    hidden = np.random.default_rng(0).standard_normal((1, 6, 4)).astype(np.float32)
    mask = np.array([[1, 1, 1, 0, 0, 0]])
    other = hidden.copy()
    other[:, 3:] = 7
    embedding = sentences.mean_pooled(hidden, mask)
    np.testing.assert_array_equal(embedding, sentences.mean_pooled(other, mask))
    expected = hidden[0, :3].mean(axis=0)
    np.testing.assert_allclose(embedding[0], expected / np.linalg.norm(expected), rtol=1e-6)


def test_cosine_similarity_of_known_angles():
    a = np.array([1.0, 0.0], np.float32)
    assert sentences.cosine_similarity(a, a * 3) == pytest.approx(1)
    assert sentences.cosine_similarity(a, np.array([0.0, 2.0], np.float32)) == pytest.approx(0)
    assert sentences.cosine_similarity(a, -a) == pytest.approx(-1)
