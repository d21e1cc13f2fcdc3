"""The sizes of a decoder of the llama family, read from a GGUF file's keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.errors import ModelError
from tvm_fusionx.gguf.read import GgufFile

ARCHITECTURE = "llama"
ROTARY_BASE = 10_000.0  # Of a file that does not say (Su et al. 2021).


@dataclass(frozen=True)
class LlamaShape:
    """What the keys of a file say of its model."""

    layers: int
    features: int
    inner: int
    """Features between the two products of a feed-forward part."""
    heads: int
    groups: int
    """Heads of keys and values; each serves ``heads / groups`` of queries."""
    head_features: int
    vocabulary: int
    context: int
    """Tokens that the model was trained on at once."""
    epsilon: float
    """Of the norms."""
    frequencies: tuple[float, ...]
    """Angle of each pair of a head's features from one token to the next."""


def llama_shape(file: GgufFile) -> LlamaShape:
    """Return the sizes of a file's model.

    Raises
    ------
    ModelError
        The architecture is another one, a key is missing, or asks for what is not translated.
    """
    found = str(file.get("general.architecture"))
    if found != ARCHITECTURE:
        raise _refusal(file, "general.architecture", f"{ARCHITECTURE!r}", repr(found))
    if int(file.get("llama.expert_count", 0)):
        raise _refusal(
            file, "llama.expert_count", "no experts", str(file.get("llama.expert_count"))
        )
    features, heads = _count(file, "embedding_length"), _count(file, "attention.head_count")
    groups = int(file.get("llama.attention.head_count_kv", heads))
    head_features = int(file.get("llama.attention.key_length", features // heads))
    if groups < 1 or heads % groups:
        expected = f"a divisor of the {heads} heads of queries"
        raise _refusal(file, "llama.attention.head_count_kv", expected, str(groups))
    turned = int(file.get("llama.rope.dimension_count", head_features))
    if turned != head_features or head_features % 2:
        expected = f"all {head_features} features of a head, an even number"
        raise _refusal(file, "llama.rope.dimension_count", expected, str(turned))
    return LlamaShape(
        layers=_count(file, "block_count"),
        features=features,
        inner=_count(file, "feed_forward_length"),
        heads=heads,
        groups=groups,
        head_features=head_features,
        vocabulary=_vocabulary(file),
        context=_count(file, "context_length"),
        epsilon=float(file.get("llama.attention.layer_norm_rms_epsilon")),
        frequencies=tuple(_frequencies(file, head_features)),
    )


def _vocabulary(file: GgufFile) -> int:
    if "token_embd.weight" in file.tensors:
        return int(file.tensors["token_embd.weight"].shape[-1])
    return _count(file, "vocab_size")


def _frequencies(file: GgufFile, head_features: int) -> list[float]:
    scaling = str(file.get("llama.rope.scaling.type", "none"))
    if scaling not in ("none", "linear"):
        raise _refusal(file, "llama.rope.scaling.type", "'none' or 'linear'", repr(scaling))
    factor = float(file.get("llama.rope.scaling.factor", 1.0)) if scaling == "linear" else 1.0
    base = float(file.get("llama.rope.freq_base", ROTARY_BASE))
    exponents = np.arange(0, head_features, 2) / head_features
    angles = base**-exponents / factor
    if "rope_freqs.weight" in file.tensors:
        # Llama 3's stretching of slow angles.
        angles = angles / np.asarray(file.tensor("rope_freqs.weight", (head_features // 2,)))
    return [float(angle) for angle in angles]


def _count(file: GgufFile, name: str) -> int:
    key = f"llama.{name}"
    value: Any = file.get(key)
    if not isinstance(value, int) or value < 1:
        raise _refusal(file, key, "a positive number", repr(value)[:40])
    return value


def _refusal(file: GgufFile, key: str, expected: str, found: str) -> ModelError:
    return ModelError(
        f"{file.path}: key {key!r}",
        expected=expected,
        found=found,
        next_step="Models of other kinds are read as ONNX files: fx.from_onnx.",
    )
