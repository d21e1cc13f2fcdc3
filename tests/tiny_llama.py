"""A llama of a few features with seeded weights, as a GGUF file; and what it computes, in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Array = np.ndarray[Any, Any]

EPSILON = 1e-5
BASE = 10_000.0


@dataclass(frozen=True)
class Tiny:
    """Sizes of a tiny model."""

    layers: int = 2
    features: int = 64
    inner: int = 96
    heads: int = 4
    groups: int = 2
    vocabulary: int = 80
    context: int = 64
    own_head: bool = False
    """Whether the head is another matrix than the embedding."""

    @property
    def size(self) -> int:
        """Features of a head."""
        return self.features // self.heads


def vocabulary(count: int) -> tuple[list[str], list[str]]:
    """Return tokens and merges: the bytes of a small alphabet, pairs of them, and two marks."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    # Of byte-level tokenizers: a space is written as this letter.
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "\u0120", *letters, "\u00c3", "\u00a9"]
    merges = []
    for first in letters:
        for second in letters:
            if len(tokens) == count:
                return tokens, merges
            tokens.append(first + second)
            merges.append(f"{first} {second}")
    return tokens, merges


TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }} {{ message['content'] }}"
    "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
)


def write_tiny(
    path: Path,
    kinds: Sequence[str] = ("Q4_1", "Q8_0"),
    tiny: Tiny = Tiny(),
    *,
    architecture: str = "llama",
    weights: dict[str, Array] | None = None,
    **keys: Any,
) -> dict[str, Array]:
    """Write a model; return its weights as floats, as the file holds them.

    Parameters
    ----------
    kinds
        Quantization of the matrices, and of the embedding.
    weights
        Written in the place of a llama's own, by name in the file.
    keys
        Further keys of the architecture; a float or an int each.
    """
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(tiny.layers)
    writer.add_context_length(tiny.context)
    writer.add_embedding_length(tiny.features)
    writer.add_feed_forward_length(tiny.inner)
    writer.add_head_count(tiny.heads)
    writer.add_head_count_kv(tiny.groups)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(BASE)
    for key, value in keys.items():
        name = f"{architecture}.{key}"
        (writer.add_float32 if isinstance(value, float) else writer.add_uint32)(name, value)
    tokens, merges = vocabulary(tiny.vocabulary)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3, *[1] * (len(tokens) - 3)])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    held = {}
    for name, array in (weights or _weights(tiny)).items():
        kind = "F32" if array.ndim == 1 else kinds["token_embd" in name]
        type_ = gguf.GGMLQuantizationType[kind]
        stored = gguf.quants.quantize(array, type_)
        is_float = kind in ("F16", "F32")
        writer.add_tensor(name, stored, raw_dtype=None if is_float else type_)
        held[name] = np.asarray(gguf.quants.dequantize(stored, type_), "float32")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def _weights(tiny: Tiny) -> dict[str, Array]:
    draw = np.random.default_rng(0)
    narrow = tiny.groups * tiny.size

    def matrix(rows: int, columns: int) -> Array:
        return (draw.standard_normal((rows, columns)) * 2 / columns**0.5).astype("float32")

    def norm() -> Array:
        return (1 + 0.1 * draw.standard_normal(tiny.features)).astype("float32")

    held = {
        "token_embd.weight": matrix(tiny.vocabulary, tiny.features),
        "output_norm.weight": norm(),
    }
    if tiny.own_head:
        held["output.weight"] = matrix(tiny.vocabulary, tiny.features)
    for number in range(tiny.layers):
        layer = {
            "attn_norm": norm(),
            "attn_q": matrix(tiny.features, tiny.features),
            "attn_k": matrix(narrow, tiny.features),
            "attn_v": matrix(narrow, tiny.features),
            "attn_output": matrix(tiny.features, tiny.features),
            "ffn_norm": norm(),
            "ffn_gate": matrix(tiny.inner, tiny.features),
            "ffn_up": matrix(tiny.inner, tiny.features),
            "ffn_down": matrix(tiny.features, tiny.inner),
        }
        held.update({f"blk.{number}.{name}.weight": array for name, array in layer.items()})
    return held


def logits_of(
    held: dict[str, Array], tokens: Sequence[int], tiny: Tiny = Tiny(), base: float = BASE
) -> Array:
    """Return the logits ``[tokens, vocabulary]`` of a text, in double precision.

    After the published models: llama.cpp's, whose neighbouring features turn together.
    """
    weights = {name: array.astype("float64") for name, array in held.items()}
    x = weights["token_embd.weight"][list(tokens)]
    count, size = len(tokens), tiny.size
    angles = np.arange(count)[:, None] * base ** -(np.arange(0, size, 2) / size)
    turn = np.exp(1j * angles)[:, None]
    for number in range(tiny.layers):

        def weight(name: str, number: int = number) -> Array:
            return weights[f"blk.{number}.{name}.weight"]

        y = _normed(x, weight("attn_norm"))
        query, key, value = (
            (y @ weight(name).T).reshape(count, -1, size) for name in ("attn_q", "attn_k", "attn_v")
        )
        query, key = (_turned(each, turn) for each in (query, key))
        shared = tiny.heads // tiny.groups
        key, value = (np.repeat(each, shared, axis=1) for each in (key, value))
        scores = np.einsum("qhd,khd->hqk", query, key) / size**0.5
        scores += np.triu(np.full((count, count), -np.inf), 1)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", scores, value).reshape(count, -1)
        x = x + mixed @ weight("attn_output").T
        y = _normed(x, weight("ffn_norm"))
        gate = y @ weight("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ weight("ffn_up").T)) @ weight("ffn_down").T
    head = weights.get("output.weight", weights["token_embd.weight"])
    return _normed(x, weights["output_norm.weight"]) @ head.T


def _normed(x: Array, weight: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight


def _turned(x: Array, turn: Array) -> Array:
    pairs = (x[..., ::2] + 1j * x[..., 1::2]) * turn
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)
