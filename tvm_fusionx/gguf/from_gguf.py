"""``fx.from_gguf``: a language model's file to Relay and weights."""

from __future__ import annotations

import os
from typing import Any

from tvm_fusionx.errors import InputError, ShapeError
from tvm_fusionx.gguf.decoder_relay import DecoderRelay
from tvm_fusionx.gguf.decoder_shape import DecoderShape, decoder_shape
from tvm_fusionx.gguf.decoder_weights import DecoderWeights, decoder_weights
from tvm_fusionx.gguf.read import GgufFile, read_gguf

DEFAULT_CACHE = 512

# What packed weights are multiplied by.
FLOAT32, INT8 = "float32", "int8"
ACTIVATIONS = (FLOAT32, INT8)


def from_gguf(
    path: str | os.PathLike[str],
    *,
    tokens: int = 1,
    cache: int = DEFAULT_CACHE,
    all_logits: bool = False,
    activations: str = FLOAT32,
) -> tuple[Any, dict[str, Any]]:
    """Read a decoder: the llama family's, or GPT-2.

    The file's architecture says which norms, places and feed-forward parts it has. Weights stay as
    the file packs them (Q4_0, Q4_1, Q8_0); F16 becomes float32.

    Parameters
    ----------
    path
        A GGUF file. The package ``gguf`` reads it.
    tokens
        How many a step takes: the prompt goes in chunks, and then one by one.
    cache
        How many earlier tokens a step may see.
    all_logits
        Whether the logits of every token are returned, and not those of one.
    activations
        What packed weights are multiplied by: ``"float32"``, or ``"int8"``, rounded to 8 bits in
        blocks of as many numbers as share a scale, so that processors multiply bytes.

    Returns
    -------
    mod : tvm.IRModule
        ``main`` takes ``tokens`` (int32 ``[tokens]``), ``position`` (int32 ``[1]``: how many places
        of the cache count), ``last`` (int32 ``[1]``: the token whose logits are wanted; not with
        `all_logits`), and for each layer N ``keys_N`` ``[groups, head features, cache]`` and
        ``values_N`` ``[groups, cache, head features]``. It returns logits ``[1 or tokens,
        vocabulary]`` and for each layer the tokens' own keys and values, laid out alike.
    params
        The weights by name: for ``fx.build(mod, target, params=params)``.

    Raises
    ------
    ModelError
        The file is damaged, or of an architecture or a quantization that is not translated.
    ShapeError
        `tokens` or `cache` is no positive number.
    InputError
        `activations` is neither.
    MissingDependencyError
        The package ``gguf`` is not installed.
    """
    return decoder_module(
        *read_decoder(path),
        tokens=tokens,
        cache=cache,
        all_logits=all_logits,
        activations=activations,
    )


def read_decoder(path: str | os.PathLike[str] | GgufFile) -> tuple[DecoderShape, DecoderWeights]:
    """Return the sizes and the weights in a file, for several calls of :func:`decoder_module`."""
    file = path if isinstance(path, GgufFile) else read_gguf(path)
    shape = decoder_shape(file)
    return shape, decoder_weights(file, shape)


def decoder_module(
    shape: DecoderShape,
    weights: DecoderWeights,
    *,
    tokens: int,
    cache: int,
    all_logits: bool = False,
    activations: str = FLOAT32,
) -> tuple[Any, dict[str, Any]]:
    """Return Relay and weights of a model that was read; see :func:`from_gguf`."""
    for name, number in (("tokens", tokens), ("cache", cache)):
        if number < 1:
            raise ShapeError(
                name,
                expected="a positive number",
                found=str(number),
                next_step="Give how many tokens a step takes, or may look back on.",
            )
    if activations not in ACTIVATIONS:
        raise InputError(
            "activations",
            expected=" or ".join(map(repr, ACTIVATIONS)),
            found=repr(activations),
            next_step="Give one of them.",
        )
    writer = DecoderRelay(shape, tokens, cache, rounds_data=activations == INT8)
    return writer.module(weights, all_logits=all_logits), writer.params
