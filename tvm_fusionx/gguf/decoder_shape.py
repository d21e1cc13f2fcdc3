"""The sizes of a decoder, read from a GGUF file's keys, and what its architecture is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.errors import ModelError
from tvm_fusionx.gguf.read import GgufFile

ARCHITECTURE_KEY = "general.architecture"
ROTARY_BASE = 10_000.0  # Of a file that does not say (Su et al. 2021).


@dataclass(frozen=True)
class Family:
    """What all decoders of an architecture have in common."""

    epsilon: str
    """Key of what the norms add to a mean of squares."""
    is_centred: bool
    """Whether norms subtract the mean: layer norms, else RMS norms."""
    is_biased: bool
    """Whether norms and products add a bias."""
    is_rotary: bool
    """Whether queries and keys turn with their places; else rows of a table are added."""
    is_gated: bool
    """Whether a feed-forward part is ``silu(gate) * up``; else ``gelu(up)`` by its tanh."""
    is_joined: bool
    """Whether one tensor of the file makes queries, keys and values."""


# By the architecture's name in a file.
FAMILIES = {
    # Touvron et al. 2023.
    "llama": Family(
        epsilon="attention.layer_norm_rms_epsilon",
        is_centred=False,
        is_biased=False,
        is_rotary=True,
        is_gated=True,
        is_joined=False,
    ),
    # Radford et al. 2019.
    "gpt2": Family(
        epsilon="attention.layer_norm_epsilon",
        is_centred=True,
        is_biased=True,
        is_rotary=False,
        is_gated=False,
        is_joined=True,
    ),
}


@dataclass(frozen=True)
class DecoderShape:
    """What the keys of a file say of its model."""

    family: Family
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
    """Angle of each pair of a head's features from one token to the next; none where places are
    rows of a table."""


def decoder_shape(file: GgufFile) -> DecoderShape:
    """Return the sizes of a file's model.

    Raises
    ------
    ModelError
        The architecture is another one, a key is missing, or asks for what is not translated.
    """
    name = str(file.get(ARCHITECTURE_KEY))
    if name not in FAMILIES:
        expected = f"one of {', '.join(map(repr, FAMILIES))}"
        raise _refusal(file, ARCHITECTURE_KEY, expected, repr(name))
    family, keys = FAMILIES[name], _Keys(file, name)
    if int(keys.get("expert_count", 0)):
        raise keys.refusal("expert_count", "no experts", str(keys.get("expert_count")))
    features, heads = keys.count("embedding_length"), keys.count("attention.head_count")
    groups = int(keys.get("attention.head_count_kv", heads))
    head_features = int(keys.get("attention.key_length", features // heads))
    if groups < 1 or heads % groups:
        expected = f"a divisor of the {heads} heads of queries"
        raise keys.refusal("attention.head_count_kv", expected, str(groups))
    return DecoderShape(
        family=family,
        layers=keys.count("block_count"),
        features=features,
        inner=keys.count("feed_forward_length"),
        heads=heads,
        groups=groups,
        head_features=head_features,
        vocabulary=_vocabulary(file, keys),
        context=keys.count("context_length"),
        epsilon=float(keys.get(family.epsilon)),
        frequencies=tuple(_frequencies(file, keys, head_features)) if family.is_rotary else (),
    )


@dataclass(frozen=True)
class _Keys:
    """What a file says under its architecture's name."""

    file: GgufFile
    architecture: str

    def get(self, name: str, default: Any = None) -> Any:
        return self.file.get(f"{self.architecture}.{name}", default)

    def count(self, name: str) -> int:
        value = self.get(name)
        if not isinstance(value, int) or value < 1:
            raise self.refusal(name, "a positive number", repr(value)[:40])
        return value

    def refusal(self, name: str, expected: str, found: str) -> ModelError:
        return _refusal(self.file, f"{self.architecture}.{name}", expected, found)


def _vocabulary(file: GgufFile, keys: _Keys) -> int:
    if "token_embd.weight" in file.tensors:
        return int(file.tensors["token_embd.weight"].shape[-1])
    return keys.count("vocab_size")


def _frequencies(file: GgufFile, keys: _Keys, head_features: int) -> list[float]:
    turned = int(keys.get("rope.dimension_count", head_features))
    if turned != head_features or head_features % 2:
        expected = f"all {head_features} features of a head, an even number"
        raise keys.refusal("rope.dimension_count", expected, str(turned))
    scaling = str(keys.get("rope.scaling.type", "none"))
    if scaling not in ("none", "linear"):
        raise keys.refusal("rope.scaling.type", "'none' or 'linear'", repr(scaling))
    factor = float(keys.get("rope.scaling.factor", 1.0)) if scaling == "linear" else 1.0
    base = float(keys.get("rope.freq_base", ROTARY_BASE))
    exponents = np.arange(0, head_features, 2) / head_features
    angles = base**-exponents / factor
    if "rope_freqs.weight" in file.tensors:
        # Llama 3's stretching of slow angles.
        angles = angles / np.asarray(file.tensor("rope_freqs.weight", (head_features // 2,)))
    return [float(angle) for angle in angles]


def _refusal(file: GgufFile, key: str, expected: str, found: str) -> ModelError:
    return ModelError(
        f"{file.path}: key {key!r}",
        expected=expected,
        found=found,
        next_step="Models of other kinds are read as ONNX files: fx.from_onnx.",
    )
