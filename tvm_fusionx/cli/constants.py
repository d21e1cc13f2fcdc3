"""``--constants``: inputs of the model that are bound while compiling."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

FLAG = "--constants"
EXAMPLE = "write it like sr=16000 size=[480,640] flag=true."

# A name up to the first equals sign; then a number, a word or a list.
_ONE = re.compile(
    r"\s*,?\s*(?P<name>[^\s=,\[\]]+)\s*=\s*(?P<value>\[[^=]*\]|[^\s,=\[\]]+)(?=\s|,|$)"
)
_WORD = re.compile(r"[^-=\s][^=\s]*=\S+")


class Constants(click.ParamType):  # type: ignore[type-arg]
    """The value of ``--constants``: ``sr=16000 orig_im_size=[480,640]``."""

    name = "constants"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        """Return numbers, booleans and lists by input name."""
        if isinstance(value, dict):
            return value
        constants: dict[str, Any] = {}
        position, text = 0, str(value).rstrip(" ,")
        while position < len(text):
            match = _ONE.match(text, position)
            if match is None:
                self.fail(f"cannot read {text[position:]!r}; {EXAMPLE}", param, ctx)
            position = match.end()
            if match["name"] in constants:
                self.fail(f"{match['name']!r} is given twice; {EXAMPLE}", param, ctx)
            try:
                constants[match["name"]] = json.loads(match["value"])
            except (ValueError, RecursionError):
                self.fail(f"{match['value']!r} is no number or list; {EXAMPLE}", param, ctx)
        return constants


class ModelCommand(click.Command):
    """A command that takes a model, and several words after ``--constants``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words behind the flag as one value."""
        return super().parse_args(ctx, join_constants(args))


def join_constants(words: Iterable[str]) -> list[str]:
    """Return a command line with all ``name=value`` words behind the flag in one word."""
    joined: list[str] = []
    is_open = False
    for word in words:
        is_more = is_open and _WORD.fullmatch(word) is not None and joined[-1] != FLAG
        if is_more:
            joined[-1] += f" {word}"
        else:
            is_open = word == FLAG or word.startswith(f"{FLAG}=") or joined[-1:] == [FLAG]
            joined.append(word)
    return joined


def _merge(
    _: click.Context, __: click.Parameter, given: tuple[dict[str, Any], ...]
) -> dict[str, Any]:
    return {name: value for each in given for name, value in each.items()}


constants_option = click.option(
    FLAG,
    "constants",
    type=Constants(),
    multiple=True,
    callback=_merge,
    help="Inputs to bind while compiling, as sr=16000 orig_im_size=[480,640].",
)


def bind(model: Path, constants: Mapping[str, Any]) -> Any:
    """Return what commands read: the path, or a ``ModelProto`` where inputs are bound."""
    if not constants:
        return model
    from tvm_fusionx.frontend.bound_model import bound_model

    bound = bound_model(model, constants)
    bound.graph.name = model.stem
    return bound


def without_bound(arrays: Mapping[str, Any], constants: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays of inputs that are not bound: a file made for the whole model serves."""
    return {name: array for name, array in arrays.items() if name not in constants}


def as_words(constants: Mapping[str, Any]) -> str:
    """Return the flag that gives `constants`, behind a space; nothing where there are none."""
    if not constants:
        return ""
    words = (
        f"{name}={json.dumps(value, separators=(',', ':'))}" for name, value in constants.items()
    )
    return f" {FLAG} {' '.join(words)}"
