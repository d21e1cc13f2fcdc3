"""A search space from a small JSON file, with a sentence for everything that is wrong in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm_fusionx.compress.prune.config import METHODS
from tvm_fusionx.errors import SpaceError
from tvm_fusionx.search.space import Choice, Option, Repeat, Space

TRANSFORMER = "transformer"
CNN = "cnn"

NO_PRUNING = "none"
# Of channels, of places in a kernel, or of blocks of a matrix.
FILTER, PATTERN, BLOCK = "filter", "pattern", "block"
SCHEMES = (FILTER, PATTERN)
# The decision on a layer's zeros, and the one how weights come to them.
PRUNING = "pruning"
PRUNING_METHOD = "pruning_method"

# What follows products and convolutions, and what does where the space says nothing.
ACTIVATION = "activation"
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "swish", "hard_swish")
USUAL_ACTIVATION = {TRANSFORMER: "gelu", CNN: "relu"}

KERNELS = (1, 3, 5, 7)
KINDS = ("dense", "depthwise")

# Of anything that a network has so many of: a million neurons a layer are no network of a device.
LARGEST = 1 << 20

_NUMBERS = f"a list of whole numbers from 1 to {LARGEST}, each once"


def load_space(path: str | Path) -> Space:
    """Read a space from a JSON file.

    Raises
    ------
    SpaceError
        The file cannot be read, is no JSON, or describes no space.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _wrong(str(path), "a JSON file that describes a space", str(error)) from error
    return parse_space(content)


def parse_space(content: Any) -> Space:
    """Return the space that a dictionary describes.

    A transformer has ``tokens``, ``vocabulary``, ``classes``, and lists ``layers``, ``hidden``,
    ``heads`` and ``feed_forward``; a CNN ``channels``, ``side``, ``classes`` and a list ``stages``,
    each with ``stride`` and lists ``depth``, ``width``, ``kernel``, ``kind`` and ``expansion``.
    ``pruning`` of both has lists ``schemes`` and ``rates``, and may have ``methods``, of which one
    is chosen for a whole network; without it nothing is pruned. ``activation`` of both is one of
    :data:`ACTIVATIONS`, that of :data:`USUAL_ACTIVATION` where it is left out.

    Raises
    ------
    SpaceError
        A field is missing, unknown or of another kind, or the space has no candidate.
    """
    if not isinstance(content, Mapping):
        raise _wrong("it", "an object", type(content).__name__)
    family = content.get("family")
    if family not in _PARSERS:
        raise _wrong("family", f"one of {', '.join(_PARSERS)}", repr(family))
    space = _PARSERS[family](content)
    _check_every_way(space)
    return space


def _transformer(content: Mapping[str, Any]) -> Space:
    searched = ("layers", "hidden", "heads", "feed_forward")
    fixed = ("tokens", "vocabulary", "classes")
    _only(content, ("family", "pruning", ACTIVATION, *fixed, *searched))
    of_layer = (
        Choice("heads", _numbers(content, "heads"), divides="hidden"),
        Choice("feed_forward", _numbers(content, "feed_forward")),
        *_pruning(content),
    )
    return Space(
        TRANSFORMER,
        {**{name: _number(content, name) for name in fixed}, **_activation(content)},
        (
            *_method(content),
            Choice("layers", _numbers(content, "layers")),
            Choice("hidden", _numbers(content, "hidden")),
            Repeat("layer", "layers", of_layer),
        ),
    )


def _cnn(content: Mapping[str, Any]) -> Space:
    fixed = ("channels", "side", "classes")
    _only(content, ("family", "pruning", "stages", ACTIVATION, *fixed))
    stages = content.get("stages")
    if not isinstance(stages, list) or not stages:
        raise _wrong("stages", "a list of one stage at least", repr(stages))
    pruning = _pruning(content)
    counts: list[Choice] = []
    widths: list[Choice] = []
    layers: list[Repeat] = []
    strides: list[int] = []
    for place, stage in enumerate(stages):
        name = f"stage{place}"
        if not isinstance(stage, Mapping):
            raise _wrong(name, "an object", repr(stage))
        _only(stage, ("stride", "depth", "width", "kernel", "kind", "expansion"), name)
        strides.append(_number(stage, "stride", name))
        counts.append(Choice(f"{name}.depth", _numbers(stage, "depth", name)))
        widths.append(Choice(f"{name}.width", _numbers(stage, "width", name)))
        of_layer = (
            Choice("kernel", _some(_numbers(stage, "kernel", name), KERNELS, f"{name}.kernel")),
            Choice("kind", _some(stage.get("kind"), KINDS, f"{name}.kind")),
            Choice("expansion", _numbers(stage, "expansion", name)),
            *pruning,
        )
        layers.append(Repeat(f"{name}.layer", f"{name}.depth", of_layer))
    return Space(
        CNN,
        {
            **{name: _number(content, name) for name in fixed},
            "strides": strides,
            **_activation(content),
        },
        (*_method(content), *counts, *widths, *layers),
    )


_PARSERS = {TRANSFORMER: _transformer, CNN: _cnn}


def _activation(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the activation where the space names one: the digest of others stays as it is."""
    if ACTIVATION not in content:
        return {}
    found = content[ACTIVATION]
    if found not in ACTIVATIONS:
        raise _wrong(ACTIVATION, f"one of {', '.join(ACTIVATIONS)}", repr(found))
    return {ACTIVATION: str(found)}


def _pruning(content: Mapping[str, Any]) -> tuple[Choice, ...]:
    """Return the decision on pruning: symbols such as ``filter:0.5``, none where none is asked."""
    if "pruning" not in content:
        return ()
    asked = content["pruning"]
    if not isinstance(asked, Mapping):
        raise _wrong("pruning", "an object with schemes and rates", repr(asked))
    _only(asked, ("schemes", "rates", "methods"), "pruning")
    schemes, rates = asked.get("schemes"), asked.get("rates")
    if not isinstance(schemes, list) or not schemes or not all(map(_is_scheme, schemes)):
        expected = f"a list of {NO_PRUNING}, {', '.join(SCHEMES)}, {BLOCK}4x1 and the like"
        raise _wrong("pruning, schemes", expected, repr(schemes))
    is_rated = any(scheme != NO_PRUNING for scheme in schemes)
    if rates is None:
        rates = []
    if not isinstance(rates, list) or not all(_is_rate(rate) for rate in rates):
        raise _wrong("pruning, rates", "a list of shares between 0 and 1", repr(rates))
    if is_rated and not rates:
        raise _wrong("pruning, rates", "one share at least, as something is pruned", "none")
    symbols: list[Option] = []
    for scheme in schemes:
        if scheme == NO_PRUNING:
            symbols.append(NO_PRUNING)
        else:
            symbols += [f"{scheme}:{float(rate):g}" for rate in rates]
    return (Choice(PRUNING, _once(symbols, PRUNING)),)


def _method(content: Mapping[str, Any]) -> tuple[Choice, ...]:
    """Return the decision how all layers of a network are pruned, where it is left open."""
    asked = content.get("pruning")
    if not isinstance(asked, Mapping) or "methods" not in asked:
        return ()
    methods = _some(asked["methods"], METHODS, "pruning, methods")
    return (Choice(PRUNING_METHOD, methods),)


def pruning_of(symbol: str) -> tuple[str, float]:
    """Return scheme and rate of a symbol such as ``filter:0.5``; ``none`` has rate 0."""
    scheme, _, rate = symbol.partition(":")
    return scheme, float(rate) if rate else 0.0


def _is_scheme(scheme: Any) -> bool:
    if scheme == NO_PRUNING or scheme in SCHEMES:
        return True
    if not isinstance(scheme, str) or not scheme.startswith(BLOCK):
        return False
    rows, _, columns = scheme.removeprefix(BLOCK).partition("x")
    return all(part.isdecimal() and int(part) > 0 for part in (rows, columns))


def _is_rate(rate: Any) -> bool:
    return isinstance(rate, (int, float)) and not isinstance(rate, bool) and 0 < rate < 1


def _only(content: Mapping[str, Any], known: tuple[str, ...], where: str = "") -> None:
    further = sorted(set(content) - set(known))
    if further:
        raise _wrong(where or "it", f"only {', '.join(known)}", further[0])


def _number(content: Mapping[str, Any], name: str, where: str = "") -> int:
    found = content.get(name)
    if not _is_number(found):
        raise _wrong(_joined(where, name), f"a whole number from 1 to {LARGEST}", repr(found))
    return int(found)  # type: ignore[arg-type]


def _numbers(content: Mapping[str, Any], name: str, where: str = "") -> tuple[Option, ...]:
    found = content.get(name)
    if not isinstance(found, list) or not found or not all(map(_is_number, found)):
        raise _wrong(_joined(where, name), _NUMBERS, repr(found))
    return _once(found, _joined(where, name))


def _some(found: Any, known: tuple[Option, ...], where: str) -> tuple[Option, ...]:
    expected = f"a list of some of {', '.join(map(str, known))}"
    if not isinstance(found, (list, tuple)) or not found:
        raise _wrong(where, expected, repr(found))
    odd = [each for each in found if each not in known]
    if odd:
        raise _wrong(where, expected, repr(odd[0]))
    return _once(list(found), where)


def _once(found: list[Option], where: str) -> tuple[Option, ...]:
    if len(set(found)) != len(found):
        raise _wrong(where, "each option once", repr(found))
    return tuple(found)


def _is_number(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and 0 < found <= LARGEST


def _joined(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _check_every_way(space: Space) -> None:
    """Refuse a space in which some decision leaves no option for a later one."""
    alone = {item.name: item for item in space.items if isinstance(item, Choice)}
    choices = [each for item in space.items if isinstance(item, Repeat) for each in item.choices]
    for choice in choices:
        for whole in alone[choice.divides].options if choice.divides else ():
            if not choice.valid({choice.divides: whole}):
                raise _wrong(
                    choice.name,
                    f"an option that divides {choice.divides} {whole}",
                    repr(list(choice.options)),
                )


def _wrong(where: str, expected: str, found: str) -> SpaceError:
    return SpaceError(
        f"search space, {where}",
        expected=expected,
        found=found,
        next_step="Correct the file; docs/how-to/search-an-architecture.md has examples.",
    )
