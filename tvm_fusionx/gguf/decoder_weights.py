"""The weights of a decoder, arranged for the Relay that multiplies them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tvm_fusionx.errors import ModelError
from tvm_fusionx.gguf.block_tensor import Array, BlockTensor
from tvm_fusionx.gguf.decoder_shape import DecoderShape
from tvm_fusionx.gguf.read import GgufFile

Weight = Array | BlockTensor

EMBEDDING, PLACES, HEAD = "token_embd.weight", "position_embd.weight", "output.weight"
NORM, ATTENTION_NORM, FEED_FORWARD_NORM = "output_norm", "attn_norm", "ffn_norm"
QUERY, KEY, VALUE, JOINED = "attn_q", "attn_k", "attn_v", "attn_qkv"
OUTPUT, GATE, UP, DOWN = "attn_output", "ffn_gate", "ffn_up", "ffn_down"


@dataclass(frozen=True)
class Norm:
    """What a norm multiplies by and adds."""

    gain: Array
    bias: Array | None


@dataclass(frozen=True)
class Linear:
    """A product's weight, ``[outputs, inputs]``, and what is added."""

    weight: Weight
    bias: Array | None = None


@dataclass(frozen=True)
class DecoderLayer:
    """Weights of one layer; queries and keys that turn do so by halves."""

    attention_norm: Norm
    query: Linear
    key: Linear
    value: Linear
    output: Linear
    feed_forward_norm: Norm
    gate: Linear | None
    """None where the architecture has no gates."""
    up: Linear
    down: Linear


@dataclass(frozen=True)
class DecoderWeights:
    """All weights of a model."""

    embedding: Weight
    places: Weight | None
    """A row for each place of a text; None where queries and keys turn instead."""
    layers: tuple[DecoderLayer, ...]
    norm: Norm
    head: Weight
    """The embedding itself where the file has no other."""


def decoder_weights(file: GgufFile, shape: DecoderShape) -> DecoderWeights:
    """Return a file's weights.

    Raises
    ------
    ModelError
        A tensor is missing, of another shape or of an unknown quantization; or there is one that
        the model would not use.
    """
    names = dict(_names(shape))
    unknown = sorted(set(file.tensors) - {"rope_freqs.weight", HEAD, *names})
    if unknown:
        raise ModelError(
            f"{file.path}: tensor {unknown[0]!r}",
            expected="the weights of a decoder of the file's architecture alone",
            found=f"{len(unknown)} others",
            next_step="Export the model to ONNX and read it with fx.from_onnx.",
        )
    held = {name: file.tensor(name, extents) for name, extents in names.items()}
    embedding = held[EMBEDDING]
    head = file.tensor(HEAD, embedding.shape) if HEAD in file.tensors else embedding
    layers = tuple(_layer(held, shape, f"blk.{number}.") for number in range(shape.layers))
    return DecoderWeights(embedding, held.get(PLACES), layers, _norm(held, NORM), head)


def _layer(held: dict[str, Weight], shape: DecoderShape, prefix: str) -> DecoderLayer:
    if shape.family.is_joined:
        query, key, value = _apart(_linear(held, prefix + JOINED), shape)
    else:
        query, key, value = (_linear(held, prefix + name) for name in (QUERY, KEY, VALUE))
    if shape.family.is_rotary:
        query, key = _by_halves(query, shape), _by_halves(key, shape)
    return DecoderLayer(
        attention_norm=_norm(held, prefix + ATTENTION_NORM),
        query=query,
        key=key,
        value=value,
        output=_linear(held, prefix + OUTPUT),
        feed_forward_norm=_norm(held, prefix + FEED_FORWARD_NORM),
        gate=_linear(held, prefix + GATE) if shape.family.is_gated else None,
        up=_linear(held, prefix + UP),
        down=_linear(held, prefix + DOWN),
    )


def _names(shape: DecoderShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Give the name and shape of each tensor of the model, but for an own head."""
    family, features = shape.family, shape.features
    yield EMBEDDING, (shape.vocabulary, features)
    if not family.is_rotary:
        yield PLACES, (shape.context, features)
    parts: list[tuple[str, tuple[int, ...]]] = [(NORM, (features,))]
    for number in range(shape.layers):
        parts += [(f"blk.{number}.{name}", extents) for name, extents in _layer_parts(shape)]
    for name, extents in parts:
        yield f"{name}.weight", extents
        if family.is_biased:
            yield f"{name}.bias", extents[:1]


def _layer_parts(shape: DecoderShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    family, features, inner = shape.family, shape.features, shape.inner
    wide, narrow = _rows(shape)
    yield ATTENTION_NORM, (features,)
    if family.is_joined:
        yield JOINED, (wide + 2 * narrow, features)
    else:
        yield from ((QUERY, (wide, features)), (KEY, (narrow, features)))
        yield VALUE, (narrow, features)
    yield OUTPUT, (features, wide)
    yield FEED_FORWARD_NORM, (features,)
    if family.is_gated:
        yield GATE, (inner, features)
    yield from ((UP, (inner, features)), (DOWN, (features, inner)))


def _rows(shape: DecoderShape) -> tuple[int, int]:
    """Return the rows of the weights of queries, and of keys or values."""
    return shape.heads * shape.head_features, shape.groups * shape.head_features


def _apart(joined: Linear, shape: DecoderShape) -> list[Linear]:
    wide, narrow = _rows(shape)
    ends = np.cumsum([0, wide, narrow, narrow])
    return [_reordered(joined, np.arange(*pair)) for pair in itertools.pairwise(ends)]


def _by_halves(linear: Linear, shape: DecoderShape) -> Linear:
    """Return rows so that a head's first features turn with its second half.

    In the file features that turn together are neighbours (llama.cpp's ``LLAMA_ROPE_TYPE_NORM``).
    Scores are the same where queries and keys are arranged alike.
    """
    size = shape.head_features
    heads = linear.weight.shape[0] // size
    order = np.arange(heads * size).reshape(heads, size // 2, 2).swapaxes(1, 2).reshape(-1)
    return _reordered(linear, order)


def _reordered(linear: Linear, order: Array) -> Linear:
    weight, bias = linear.weight, linear.bias
    rows = weight.rows(order) if isinstance(weight, BlockTensor) else weight[order]
    return Linear(rows, None if bias is None else bias[order])


def _linear(held: dict[str, Weight], name: str) -> Linear:
    return Linear(held[f"{name}.weight"], _bias(held, name))


def _norm(held: dict[str, Weight], name: str) -> Norm:
    return Norm(_floats(held[f"{name}.weight"]), _bias(held, name))


def _bias(held: dict[str, Weight], name: str) -> Array | None:
    bias = held.get(f"{name}.bias")
    return None if bias is None else _floats(bias)


def _floats(weight: Weight) -> Array:
    return weight.floats() if isinstance(weight, BlockTensor) else weight
