"""The value of ``--input-shapes`` where several programs may be made: ``ids:[1,32|64|128]``."""

from __future__ import annotations

import itertools
import re
from typing import Any

import click

from tvm_fusionx.cli.options import InputShapes

Shapes = dict[str, tuple[int, ...]]

# Extents of one axis, one for each program.
_CHOICE = re.compile(r"\s*\d+(?:\s*\|\s*\d+)+\s*")

# A model is imported and built for each; more than this is a mistake of writing.
MOST_PROGRAMS = 64


class ShapeBuckets(click.ParamType):  # type: ignore[type-arg]
    """Shapes of inputs, for one program or for several.

    Axes with the same list of extents grow together, as the tokens and their mask do; different
    lists are combined, each with each.
    """

    name = "shapes"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[Shapes]:
        """Return the extents by input name for each program."""
        if isinstance(value, list):
            return value
        text = str(value)
        lists: dict[str, list[str]] = {}
        for match in _CHOICE.finditer(text):
            key = _key(match[0])
            lists[key] = key.split("|")
            if len({word.lstrip("0") for word in lists[key]}) < len(lists[key]):
                self.fail(f"{text!r}: {key} names an extent twice.", param, ctx)
        combined = list(itertools.product(*lists.values()))
        if len(combined) > MOST_PROGRAMS:
            self.fail(
                f"{text!r}: {len(combined)} programs, each a build of its own; at most "
                f"{MOST_PROGRAMS}.",
                param,
                ctx,
            )
        reader = InputShapes()
        return [
            reader.convert(_chosen(text, dict(zip(lists, extents, strict=True))), param, ctx)
            for extents in combined
        ]


def _chosen(text: str, extents: dict[str, str]) -> str:
    return _CHOICE.sub(lambda match: extents[_key(match[0])], text)


def _key(choice: str) -> str:
    return "|".join(word.strip() for word in choice.split("|"))
