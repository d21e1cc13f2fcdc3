"""Tables of a configuration read strictly: an unknown word is told with the ones that are near."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tvm_fusionx.errors import InputError

# What a value is turned into, with a ValueError where it is none.
Reader = Callable[[Any], Any]


def read_table(thing: str, given: Any, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Return the values of a table by word, each read by its reader.

    Raises
    ------
    InputError
        It is no table, has a word that is unknown, or a value that its reader refuses.
    """
    if not isinstance(given, Mapping):
        raise refusal(thing, f"a table of {', '.join(readers)}", repr(given))
    for word in given:
        check_word(thing, word, readers)
    return {word: _value(thing, word, value, readers[word]) for word, value in given.items()}


def check_word(thing: str, word: Any, known: Collection[str]) -> None:
    """Raise InputError for a word that is none of `known`."""
    if word in known:
        return
    near = difflib.get_close_matches(str(word), known)
    step = f"Did you mean {' or '.join(map(repr, near))}?" if near else "Leave it out."
    raise InputError(
        f"{thing}: {word!r}",
        expected=f"one of {', '.join(known)}",
        found="a word that is unknown here",
        next_step=step,
    )


def refusal(thing: str, expected: str, found: str) -> InputError:
    """Return the error for a value that is none."""
    step = "docs/how-to/prune-a-model.md has every word and an example."
    return InputError(thing, expected=expected, found=found, next_step=step)


def _value(thing: str, word: str, value: Any, reader: Reader) -> Any:
    try:
        return reader(value)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise refusal(f"{thing}: {word}", str(error), repr(value)) from error


def number(least: float, most: float, *, open_end: bool = False) -> Reader:
    """Return a reader of numbers from `least` to `most` (below it, with `open_end`)."""

    def read(value: Any) -> float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not least <= value <= most or (open_end and value == most):
            until = "below" if open_end else "to"
            raise ValueError(f"a number from {least:g} {until} {most:g}")
        return float(value)

    return read


def whole(least: int, most: int = 1 << 40) -> Reader:
    """Return a reader of whole numbers."""

    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return value

    return read


def flag(value: Any) -> bool:
    """Return true or false.

    Raises
    ------
    ValueError
        It is neither.
    """
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def one_of(*choices: str) -> Reader:
    """Return a reader of one of these words."""

    def read(value: Any) -> str:
        if value not in choices:
            near = difflib.get_close_matches(str(value), choices)
            hint = f"; perhaps {near[0]}" if near else ""
            raise ValueError(f"one of {', '.join(choices)}{hint}")
        return str(value)

    return read
