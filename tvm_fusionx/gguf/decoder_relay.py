"""A decoder as Relay: one step of some tokens after those in a cache.

Keys and values of earlier tokens are inputs, of a fixed number of places; those of the tokens given
are results, which the caller writes into its cache. So nothing of the cache is ever copied. One
token attends by an operator that reads the places that are filled; scores of several, with the
cache and with the tokens themselves, are put side by side for one softmax.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.expressions import block_weights
from tvm_fusionx.expressions.cached_attention import cached_attention
from tvm_fusionx.gguf.block_tensor import Array, BlockTensor, joined
from tvm_fusionx.gguf.decoder_shape import DecoderShape
from tvm_fusionx.gguf.decoder_weights import DecoderLayer, DecoderWeights, Linear, Norm, Weight

# Names of inputs; those of layers are numbered.
TOKENS, POSITION, LAST, KEYS, VALUES = "tokens", "position", "last", "keys_{}", "values_{}"

# What is added to a score that does not count: its exponential is 0.
MASKED = -1e30

# Of GELU by its tanh.
GELU_SCALE, GELU_CUBE = (2 / np.pi) ** 0.5, 0.044715

# Parts of a layer's weights in the order of `levels`, `scales`, `minima`.
_PARTS = ("levels", "scales", "minima")


@dataclass
class DecoderRelay:
    """Writes the Relay of a model."""

    shape: DecoderShape
    tokens: int
    """Of a step."""
    cache: int
    """Places of the cache."""
    rounds_data: bool = False
    """Whether what packed weights are multiplied by is rounded to 8 bits in blocks."""
    params: dict[str, Any] = field(default_factory=dict)
    """Weights by name, filled as Relay is written."""
    _vars: dict[str, Any] = field(default_factory=dict, repr=False)

    def module(self, weights: DecoderWeights, *, all_logits: bool) -> Any:
        """Return the module: inputs are tokens and cache, and each weight under its name.

        Results are logits, of the token ``last`` or of all, and keys and values of each layer.
        """
        ids = relay.var(TOKENS, shape=(self.tokens,), dtype="int32")
        position = relay.var(POSITION, shape=(1,), dtype="int32")
        last = relay.var(LAST, shape=(1,), dtype="int32")
        inputs = [ids, position] if all_logits else [ids, position, last]
        x = self._rows("embedding", weights.embedding, ids)
        places = position + relay.const(np.arange(self.tokens, dtype="int32"))
        if weights.places is not None:
            x = x + self._rows("places", weights.places, places)
        angles = self._angles(places) if self.shape.family.is_rotary else None
        masks = self._masks(position) if self.tokens > 1 else ()
        results = []
        for number, layer in enumerate(weights.layers):
            caches = self._caches(number)
            inputs += caches
            attended, *kept = self._attention(number, layer, x, angles, position, masks, caches)
            x = x + attended
            x = x + self._feed_forward(number, layer, x)
            results += kept
        if not all_logits:
            x = relay.take(x, last, axis=0, mode="clip")
        x = self._norm("output_norm", x, weights.norm)
        logits = self._product(self._head_name(weights), Linear(weights.head), x)
        body = relay.Tuple([logits, *results])
        mod = tvm.IRModule.from_expr(relay.Function([*inputs, *self._vars.values()], body))
        return relay.transform.InferType()(mod)

    def _caches(self, number: int) -> list[Any]:
        groups, size = self.shape.groups, self.shape.head_features
        return [
            relay.var(KEYS.format(number), shape=(groups, size, self.cache)),
            relay.var(VALUES.format(number), shape=(groups, self.cache, size)),
        ]

    def _param(self, name: str, array: Array) -> Any:
        if name not in self.params:
            self.params[name] = tvm.nd.array(array)
            self._vars[name] = relay.var(name, shape=array.shape, dtype=str(array.dtype))
        return self._vars[name]

    def _weight(self, name: str, weight: BlockTensor) -> list[Any]:
        parts = zip(_PARTS, weight.arrays, strict=False)
        return [self._param(f"{name}.{part}", array) for part, array in parts]

    @staticmethod
    def _head_name(weights: DecoderWeights) -> str:
        return "embedding" if weights.head is weights.embedding else "head"

    def _rows(self, name: str, weight: Weight, ids: Any) -> Any:
        if isinstance(weight, BlockTensor):
            return block_weights.rows(ids, self._weight(name, weight))
        return relay.take(self._param(name, weight), ids, axis=0, mode="clip")

    def _product(self, name: str, linear: Linear, x: Any) -> Any:
        weight = linear.weight
        if isinstance(weight, BlockTensor):
            dense = block_weights.rounded_dense if self.rounds_data else block_weights.dense
            product = dense(x, self._weight(name, weight))
        else:
            product = relay.nn.dense(x, self._param(name, weight))
        return self._biased(name, product, linear.bias)

    def _biased(self, name: str, x: Any, bias: Array | None) -> Any:
        return x if bias is None else x + self._param(f"{name}.bias", bias)

    def _products(self, names: str, linears: Mapping[str, Linear], x: Any) -> list[Any]:
        """Return several products with one operand: one product where their weights allow."""
        parts = list(linears.values())
        whole = joined([part.weight for part in parts])
        if whole is None:
            return [self._product(name, linear, x) for name, linear in linears.items()]
        biases = [part.bias for part in parts if part.bias is not None]
        bias = np.concatenate(biases) if biases else None
        product = self._product(names, Linear(whole, bias), x)
        ends = np.cumsum([0, *(part.weight.shape[0] for part in parts)])
        # Each its own slice, which what reads it takes in: a split would be a kernel of copies.
        return [
            relay.strided_slice(product, [int(start)], [int(end)], axes=[1])
            for start, end in itertools.pairwise(ends)
        ]

    def _norm(self, name: str, x: Any, norm: Norm) -> Any:
        if self.shape.family.is_centred:
            x = x - relay.mean(x, axis=-1, keepdims=True)
        square = relay.mean(x * x, axis=-1, keepdims=True)
        scale = relay.rsqrt(square + relay.const(np.float32(self.shape.epsilon)))
        return self._biased(name, x * scale * self._param(name, norm.gain), norm.bias)

    def _angles(self, rows: Any) -> tuple[Any, Any]:
        """Return cosines and sines of each token, ``[tokens, 1, head features / 2]``."""
        places = np.arange(self.cache + self.tokens)[:, None] * np.asarray(self.shape.frequencies)

        def taken(table: Array) -> Any:
            found = relay.take(relay.const(table.astype("float32")), rows, axis=0, mode="clip")
            return relay.expand_dims(found, 1)

        return taken(np.cos(places)), taken(np.sin(places))

    def _masks(self, position: Any) -> tuple[Any, Any]:
        """Return what is added to scores with the cache, and with the tokens themselves."""
        columns = relay.const(np.arange(self.cache, dtype="int32").reshape(1, 1, -1))
        is_kept = relay.less(columns, position)
        hidden = relay.const(np.float32(MASKED))
        cached = relay.where(is_kept, relay.const(np.float32(0)), hidden)
        later = np.triu(np.full((self.tokens, self.tokens), MASKED, "float32"), 1)
        shared = self.shape.heads // self.shape.groups
        return cached, relay.const(np.tile(later, (shared, 1))[None])

    def _turned(self, x: Any, angles: tuple[Any, Any] | None) -> Any:
        """Turn each pair of a head's features by its token's angle; ``[tokens, heads, size]``."""
        if angles is None:
            return x
        cosines, sines = angles
        first, second = relay.split(x, 2, axis=-1)
        turned = [first * cosines - second * sines, second * cosines + first * sines]
        return relay.concatenate(turned, axis=-1)

    def _attention(
        self,
        number: int,
        layer: DecoderLayer,
        x: Any,
        angles: tuple[Any, Any] | None,
        position: Any,
        masks: tuple[Any, ...],
        caches: list[Any],
    ) -> tuple[Any, Any, Any]:
        shape, tokens = self.shape, self.tokens
        groups, shared, size = shape.groups, shape.heads // shape.groups, shape.head_features
        x = self._norm(f"layer{number}.attention_norm", x, layer.attention_norm)
        named = {
            f"layer{number}.query": layer.query,
            f"layer{number}.key": layer.key,
            f"layer{number}.value": layer.value,
        }
        query, key, value = self._products(f"layer{number}.query_key_value", named, x)
        query = self._turned(relay.reshape(query, (tokens, shape.heads, size)), angles)
        query = query * relay.const(np.float32(size**-0.5))
        key = self._turned(relay.reshape(key, (tokens, groups, size)), angles)
        keys = relay.transpose(key, (1, 2, 0))
        values = relay.transpose(relay.reshape(value, (tokens, groups, size)), (1, 0, 2))
        query = relay.reshape(query, (tokens, groups, shared, size))
        query = relay.reshape(relay.transpose(query, (1, 2, 0, 3)), (groups, shared * tokens, size))
        if tokens == 1:
            own = [relay.reshape(each, (groups, size)) for each in (keys, values)]
            mixed = cached_attention([query, *caches, *own, position])
        else:
            mixed = self._mixed(query, (keys, values), masks, caches)
        mixed = relay.transpose(relay.reshape(mixed, (groups, shared, tokens, size)), (2, 0, 1, 3))
        mixed = relay.reshape(mixed, (tokens, shape.heads * size))
        return self._product(f"layer{number}.output", layer.output, mixed), keys, values

    def _mixed(
        self, query: Any, own: tuple[Any, Any], masks: tuple[Any, ...], caches: list[Any]
    ) -> Any:
        """Return values of the cache and of the tokens themselves, weighted by their scores."""
        scores = [
            _multiplied(query, side) + mask
            for side, mask in zip((caches[0], own[0]), masks, strict=True)
        ]
        weights = relay.nn.softmax(relay.concatenate(scores, axis=-1), axis=-1)
        cached, late = relay.split(weights, [self.cache], axis=-1)
        return _multiplied(cached, caches[1]) + _multiplied(late, own[1])

    def _feed_forward(self, number: int, layer: DecoderLayer, x: Any) -> Any:
        x = self._norm(f"layer{number}.feed_forward_norm", x, layer.feed_forward_norm)
        up = self._product(f"layer{number}.up", layer.up, x)
        if layer.gate is None:
            active = _gelu(up)
        else:
            gate = self._product(f"layer{number}.gate", layer.gate, x)
            active = gate * relay.sigmoid(gate) * up
        return self._product(f"layer{number}.down", layer.down, active)


def _multiplied(left: Any, right: Any) -> Any:
    return relay.nn.batch_matmul(left, right, transpose_a=False, transpose_b=False)


def _gelu(x: Any) -> Any:
    """Return GELU by its tanh (Hendrycks and Gimpel 2016), as GPT-2 was trained."""
    inside = _scalar(GELU_SCALE) * (x + x * x * x * _scalar(GELU_CUBE))
    return _scalar(0.5) * x * (_scalar(1) + relay.tanh(inside))


def _scalar(number: float) -> Any:
    return relay.const(np.float32(number))
