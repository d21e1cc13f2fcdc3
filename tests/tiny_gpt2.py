"""A GPT-2 of a few features with seeded weights, as a GGUF file; and what it computes, in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.tiny_llama import EPSILON, Array, Tiny, write_tiny

TINY_GPT2 = Tiny(layers=1, groups=4)


def write_tiny_gpt2(
    path: Path, kinds: Sequence[str] = ("Q4_1", "Q8_0"), tiny: Tiny = TINY_GPT2
) -> dict[str, Array]:
    """Write a model; return its weights as floats, as the file holds them."""
    key = {"attention.layer_norm_epsilon": EPSILON}
    return write_tiny(path, kinds, tiny, architecture="gpt2", weights=_weights(tiny), **key)


def _weights(tiny: Tiny) -> dict[str, Array]:
    draw = np.random.default_rng(0)
    features, inner = tiny.features, tiny.inner

    def matrix(rows: int, columns: int) -> Array:
        return (draw.standard_normal((rows, columns)) * 2 / columns**0.5).astype("float32")

    def vector(length: int, middle: float) -> Array:
        return (middle + 0.1 * draw.standard_normal(length)).astype("float32")

    held = {
        "token_embd.weight": matrix(tiny.vocabulary, features),
        "position_embd.weight": matrix(tiny.context, features),
    }
    norms = ["output_norm"]
    for number in range(tiny.layers):
        norms += [f"blk.{number}.attn_norm", f"blk.{number}.ffn_norm"]
        for name, rows, columns in (
            ("attn_qkv", 3 * features, features),
            ("attn_output", features, features),
            ("ffn_up", inner, features),
            ("ffn_down", features, inner),
        ):
            held[f"blk.{number}.{name}.weight"] = matrix(rows, columns)
            held[f"blk.{number}.{name}.bias"] = vector(rows, 0)
    for name in norms:
        held[f"{name}.weight"], held[f"{name}.bias"] = vector(features, 1), vector(features, 0)
    return held


def gpt2_logits(held: dict[str, Array], tokens: Sequence[int], tiny: Tiny = TINY_GPT2) -> Array:
    """Return the logits ``[tokens, vocabulary]`` of a text, in double precision.

    After Radford et al. 2019 and OpenAI's published code.
    """
    weights = {name: array.astype("float64") for name, array in held.items()}
    count, size = len(tokens), tiny.size

    def product(name: str, x: Array) -> Array:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def normed(name: str, x: Array) -> Array:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON)
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    x = weights["token_embd.weight"][list(tokens)] + weights["position_embd.weight"][:count]
    for number in range(tiny.layers):
        layer = f"blk.{number}."
        three = product(layer + "attn_qkv", normed(layer + "attn_norm", x))
        query, key, value = (
            part.reshape(count, tiny.heads, size) for part in np.split(three, 3, axis=-1)
        )
        scores = np.einsum("qhd,khd->hqk", query, key) / size**0.5
        scores += np.triu(np.full((count, count), -np.inf), 1)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", scores, value).reshape(count, -1)
        x = x + product(layer + "attn_output", mixed)
        up = product(layer + "ffn_up", normed(layer + "ffn_norm", x))
        up = up * (1 + np.tanh((2 / np.pi) ** 0.5 * (up + 0.044715 * up**3))) / 2
        x = x + product(layer + "ffn_down", up)
    return normed("output_norm", x) @ weights["token_embd.weight"].T
