"""What a candidate computes, written once: a row of layers over the operators of :class:`Ops`.

The same program makes the torch module that is trained and the ONNX model that is compiled, so the
two cannot differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tvm_fusionx.errors import SpaceError
from tvm_fusionx.search.space_file import (
    ACTIVATION,
    CNN,
    NO_PRUNING,
    TRANSFORMER,
    USUAL_ACTIVATION,
)

DEPTHWISE = "depthwise"
# Of layer normalisation and batch normalisation: what PyTorch has.
EPSILON = 1e-5

# Sizes that a layer beside this one cannot see: what is fused over the border of an encoder is half
# of a normalisation, which has neither.
INSIDE = {"encoder": ("heads", "feed_forward", ACTIVATION)}

Sizes = Mapping[str, int | str]


class Ops(Protocol):
    """Operators that networks are made of; a tensor is whatever the implementation says.

    The batch is the first axis of every tensor, and no program names its extent. Names are those of
    parameters, unique in a network.

    Attributes
    ----------
    layer
        Name of the layer that is being made.
    """

    layer: str

    def embedding(self, ids: Any, name: str, rows: int, width: int) -> Any:
        """Return ``(batch, tokens, width)``: a row of a table for each of the integers `ids`."""

    def position(self, x: Any, name: str, tokens: int, width: int) -> Any:
        """Return ``x`` plus a parameter ``(tokens, width)``."""

    def dense(self, x: Any, name: str, inputs: int, outputs: int) -> Any:
        """Return the product of the last axis with a weight ``(inputs, outputs)``, plus a bias."""

    def layer_norm(self, x: Any, name: str, width: int) -> Any:
        """Return `x` normalised over its last axis."""

    def convolution(
        self,
        x: Any,
        name: str,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
    ) -> Any:
        """Return a padded two-dimensional convolution of NCHW, batch normalisation behind it."""

    def matmul(self, a: Any, b: Any) -> Any:
        """Return the product of the last two axes."""

    def add(self, a: Any, b: Any) -> Any:
        """Return the sum."""

    def scale(self, x: Any, factor: float) -> Any:
        """Return `x` times a number."""

    def softmax(self, x: Any) -> Any:
        """Return the softmax over the last axis."""

    def activate(self, x: Any, kind: str) -> Any:
        """Return one of :data:`tvm_fusionx.search.space_file.ACTIVATIONS` of each element."""

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        """Return `x` with `shape` behind the batch."""

    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        """Return `x` with its axes in this order."""

    def mean(self, x: Any, axes: Sequence[int]) -> Any:
        """Return the mean over axes, which vanish."""


@dataclass(frozen=True)
class Layer:
    """One layer of a network.

    Attributes
    ----------
    kind
        The program of it, one of :data:`PROGRAMS`.
    sizes
        All that the program depends on, in a fixed order.
    pruning
        How its weights are pruned, a symbol of the space.
    """

    kind: str
    sizes: tuple[tuple[str, int | str], ...]
    pruning: str = NO_PRUNING

    @property
    def symbol(self) -> str:
        """Return a word that equal layers of all networks share."""
        return self._word(self.sizes)

    @property
    def outside(self) -> str:
        """Return what a layer beside it may depend on: its symbol without what lies inside."""
        inside = INSIDE.get(self.kind, ())
        return self._word(tuple(size for size in self.sizes if size[0] not in inside))

    def _word(self, sizes: tuple[tuple[str, int | str], ...]) -> str:
        words = [f"{name}={value}" for name, value in sizes]
        if self.pruning != NO_PRUNING:
            words.append(f"pruning={self.pruning}")
        return " ".join([self.kind, *words])

    def run(self, ops: Ops, name: str, x: Any) -> Any:
        """Return the layer's result for `x`; its parameters' names begin with `name`."""
        return PROGRAMS[self.kind](ops, name, x, dict(self.sizes))


def layers_of(candidate: Mapping[str, Any]) -> tuple[Layer, ...]:
    """Return a candidate's layers, first to last.

    Raises
    ------
    SpaceError
        Its family has no program.
    """
    family = candidate["family"]
    if family not in _FAMILIES:
        raise SpaceError(
            "candidate, family",
            expected=f"one of {', '.join(_FAMILIES)}",
            found=repr(family),
            next_step="Give a candidate that a space of this package made.",
        )
    return _FAMILIES[family](candidate["fixed"], candidate["choices"])


def name_of(place: int) -> str:
    """Return the name of the layer at a place: its parameters' begin with it and an underscore."""
    return f"l{place}"


def names_of(layers: Sequence[Layer], first: int = 0) -> list[str]:
    """Return the name of each layer in a network.

    Parameters
    ----------
    first
        Place of the first of them in the network.
    """
    return [name_of(place) for place in range(first, first + len(layers))]


def run_layers(layers: Sequence[Layer], ops: Ops, x: Any, first: int = 0) -> Any:
    """Return the result of layers one after the other, the first of them at place `first`."""
    for name, layer in zip(names_of(layers, first), layers, strict=True):
        ops.layer = name
        x = layer.run(ops, name, x)
    return x


def input_of(candidate: Mapping[str, Any], batch: int = 1) -> tuple[tuple[int, ...], str]:
    """Return the shape and the element type of a candidate's input."""
    fixed = candidate["fixed"]
    if candidate["family"] == TRANSFORMER:
        return (batch, fixed["tokens"]), "int64"
    return (batch, fixed["channels"], fixed["side"], fixed["side"]), "float32"


def _transformer(fixed: Mapping[str, Any], choices: Mapping[str, Any]) -> tuple[Layer, ...]:
    tokens, hidden = fixed["tokens"], int(choices["hidden"])
    table = _layer("embed", rows=fixed["vocabulary"], tokens=tokens, hidden=hidden)
    found = [table]
    for place in range(int(choices["layers"])):
        pruning = str(choices.get(f"layer{place}.pruning", NO_PRUNING))
        found.append(
            _layer(
                "encoder",
                pruning,
                tokens=tokens,
                hidden=hidden,
                heads=choices[f"layer{place}.heads"],
                feed_forward=choices[f"layer{place}.feed_forward"],
                **_activation(TRANSFORMER, fixed),
            )
        )
    return (*found, _layer("classify_tokens", hidden=hidden, classes=fixed["classes"]))


def _cnn(fixed: Mapping[str, Any], choices: Mapping[str, Any]) -> tuple[Layer, ...]:
    found = []
    width = fixed["channels"]
    for stage, stride in enumerate(fixed["strides"]):
        for place in range(int(choices[f"stage{stage}.depth"])):
            name = f"stage{stage}.layer{place}"
            outputs = int(choices[f"stage{stage}.width"])
            found.append(
                _layer(
                    "convolve",
                    str(choices.get(f"{name}.pruning", NO_PRUNING)),
                    inputs=width,
                    outputs=outputs,
                    kernel=choices[f"{name}.kernel"],
                    stride=stride if place == 0 else 1,
                    window=choices[f"{name}.kind"],
                    expansion=choices[f"{name}.expansion"],
                    **_activation(CNN, fixed),
                )
            )
            width = outputs
    return (*found, _layer("classify_pixels", inputs=width, classes=fixed["classes"]))


_FAMILIES: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[Layer, ...]]] = {
    TRANSFORMER: _transformer,
    CNN: _cnn,
}


def _activation(family: str, fixed: Mapping[str, Any]) -> dict[str, str]:
    """Return what a symbol says of the activation: nothing where it is the family's usual one."""
    usual = USUAL_ACTIVATION[family]
    found = str(fixed.get(ACTIVATION, usual))
    return {} if found == usual else {ACTIVATION: found}


def _layer(kind: str, pruning: str = NO_PRUNING, **sizes: int | str) -> Layer:
    return Layer(kind, tuple(sizes.items()), pruning)


def _embed(ops: Ops, name: str, ids: Any, sizes: Sizes) -> Any:
    rows, tokens, hidden = (int(sizes[each]) for each in ("rows", "tokens", "hidden"))
    x = ops.embedding(ids, f"{name}_table", rows, hidden)
    x = ops.position(x, f"{name}_position", tokens, hidden)
    return ops.layer_norm(x, f"{name}_norm", hidden)


def _encoder(ops: Ops, name: str, x: Any, sizes: Sizes) -> Any:
    """Return BERT's layer: attention, then two products, each with what passes by and a norm."""
    tokens, hidden, heads, inner = (
        int(sizes[each]) for each in ("tokens", "hidden", "heads", "feed_forward")
    )
    size = hidden // heads

    def of_head(word: str) -> Any:
        made = ops.dense(x, f"{name}_{word}", hidden, hidden)
        return ops.transpose(ops.reshape(made, (tokens, heads, size)), (0, 2, 1, 3))

    query, key, value = map(of_head, ("query", "key", "value"))
    scores = ops.scale(ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))), 1 / math.sqrt(size))
    mixed = ops.transpose(ops.matmul(ops.softmax(scores), value), (0, 2, 1, 3))
    mixed = ops.dense(ops.reshape(mixed, (tokens, hidden)), f"{name}_mix", hidden, hidden)
    x = ops.layer_norm(ops.add(x, mixed), f"{name}_norm1", hidden)
    wide = ops.dense(x, f"{name}_wide", hidden, inner)
    wide = ops.activate(wide, str(sizes.get(ACTIVATION, USUAL_ACTIVATION[TRANSFORMER])))
    narrow = ops.dense(wide, f"{name}_narrow", inner, hidden)
    return ops.layer_norm(ops.add(x, narrow), f"{name}_norm2", hidden)


def _convolve(ops: Ops, name: str, x: Any, sizes: Sizes) -> Any:
    """Return MobileNet's inverted residual; without expansion and dense, a plain convolution."""
    inputs, outputs, kernel, stride, expansion = (
        int(sizes[each]) for each in ("inputs", "outputs", "kernel", "stride", "expansion")
    )
    activation = str(sizes.get(ACTIVATION, USUAL_ACTIVATION[CNN]))
    is_depthwise = sizes["window"] == DEPTHWISE
    middle = inputs * expansion
    made = x
    if expansion > 1:
        wide = ops.convolution(made, f"{name}_expand", inputs, middle, 1)
        made = ops.activate(wide, activation)
    if is_depthwise or expansion > 1:
        groups = middle if is_depthwise else 1
        window = ops.convolution(made, f"{name}_window", middle, middle, kernel, stride, groups)
        window = ops.activate(window, activation)
        made = ops.convolution(window, f"{name}_project", middle, outputs, 1)
    else:
        made = ops.convolution(made, f"{name}_window", inputs, outputs, kernel, stride)
    if stride == 1 and inputs == outputs:
        made = ops.add(made, x)
    return ops.activate(made, activation)


def _classify_tokens(ops: Ops, name: str, x: Any, sizes: Sizes) -> Any:
    return ops.dense(
        ops.mean(x, (1,)), f"{name}_classes", int(sizes["hidden"]), int(sizes["classes"])
    )


def _classify_pixels(ops: Ops, name: str, x: Any, sizes: Sizes) -> Any:
    return ops.dense(
        ops.mean(x, (2, 3)), f"{name}_classes", int(sizes["inputs"]), int(sizes["classes"])
    )


PROGRAMS: dict[str, Callable[[Ops, str, Any, Sizes], Any]] = {
    "embed": _embed,
    "encoder": _encoder,
    "convolve": _convolve,
    "classify_tokens": _classify_tokens,
    "classify_pixels": _classify_pixels,
}
