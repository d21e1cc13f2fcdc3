"""The weights of a decoder of the llama family, arranged for the Relay that multiplies them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tvm_fusionx.errors import ModelError
from tvm_fusionx.gguf.block_tensor import Array, BlockTensor
from tvm_fusionx.gguf.llama_shape import LlamaShape
from tvm_fusionx.gguf.read import GgufFile

Weight = Array | BlockTensor

EMBEDDING, HEAD = "token_embd.weight", "output.weight"


@dataclass(frozen=True)
class LlamaLayer:
    """Weights of one layer, each ``[outputs, inputs]``; queries and keys turn by halves."""

    attention_norm: Array
    query: Weight
    key: Weight
    value: Weight
    output: Weight
    feed_forward_norm: Array
    gate: Weight
    up: Weight
    down: Weight


@dataclass(frozen=True)
class LlamaWeights:
    """All weights of a model."""

    embedding: Weight
    layers: tuple[LlamaLayer, ...]
    norm: Array
    head: Weight
    """The embedding itself where the file has no other."""


def llama_weights(file: GgufFile, shape: LlamaShape) -> LlamaWeights:
    """Return a file's weights.

    Raises
    ------
    ModelError
        A tensor is missing, of another shape or of an unknown quantization; or there is one that
        the model would not use.
    """
    known = {"rope_freqs.weight", *(name for name, _ in _names(shape)), HEAD}
    unknown = sorted(set(file.tensors) - known)
    if unknown:
        raise ModelError(
            f"{file.path}: tensor {unknown[0]!r}",
            expected="the weights of a llama decoder without biases",
            found=f"{len(unknown)} others",
            next_step="Export the model to ONNX and read it with fx.from_onnx.",
        )
    held = {name: file.tensor(name, extents) for name, extents in _names(shape)}
    embedding = held[EMBEDDING]
    head = file.tensor(HEAD, embedding.shape) if HEAD in file.tensors else embedding
    layers = tuple(_layer(held, shape, number) for number in range(shape.layers))
    return LlamaWeights(embedding, layers, _floats(held["output_norm.weight"]), head)


def _layer(held: dict[str, Weight], shape: LlamaShape, number: int) -> LlamaLayer:
    def weight(name: str) -> Weight:
        return held[f"blk.{number}.{name}.weight"]

    return LlamaLayer(
        attention_norm=_floats(weight("attn_norm")),
        query=_by_halves(weight("attn_q"), shape),
        key=_by_halves(weight("attn_k"), shape),
        value=weight("attn_v"),
        output=weight("attn_output"),
        feed_forward_norm=_floats(weight("ffn_norm")),
        gate=weight("ffn_gate"),
        up=weight("ffn_up"),
        down=weight("ffn_down"),
    )


def _names(shape: LlamaShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Give the name and shape of each tensor of the model, but for an own head."""
    features, inner = shape.features, shape.inner
    wide, narrow = (count * shape.head_features for count in (shape.heads, shape.groups))
    yield EMBEDDING, (shape.vocabulary, features)
    yield "output_norm.weight", (features,)
    for number in range(shape.layers):
        for name, extents in (
            ("attn_norm", (features,)),
            ("attn_q", (wide, features)),
            ("attn_k", (narrow, features)),
            ("attn_v", (narrow, features)),
            ("attn_output", (features, wide)),
            ("ffn_norm", (features,)),
            ("ffn_gate", (inner, features)),
            ("ffn_up", (inner, features)),
            ("ffn_down", (features, inner)),
        ):
            yield f"blk.{number}.{name}.weight", extents


def _by_halves(weight: Weight, shape: LlamaShape) -> Weight:
    """Return rows so that a head's first features turn with its second half.

    In the file features that turn together are neighbours (llama.cpp's ``LLAMA_ROPE_TYPE_NORM``).
    Scores are the same where queries and keys are arranged alike.
    """
    size = shape.head_features
    heads = weight.shape[0] // size
    order = np.arange(heads * size).reshape(heads, size // 2, 2).swapaxes(1, 2).reshape(-1)
    return weight.rows(order) if isinstance(weight, BlockTensor) else weight[order]


def _floats(weight: Weight) -> Array:
    return weight.floats() if isinstance(weight, BlockTensor) else weight
