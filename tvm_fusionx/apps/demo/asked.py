"""What a page may ask for: fields of JSON, each of a known kind and within bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.apps.sampling import Sampling
from tvm_fusionx.errors import InputError

# Some four characters are a token, and the longest text has 2,048.
MOST_CHARACTERS = 8_000
MOST_QUESTION_CHARACTERS = 500
MOST_NEW_TOKENS = 512
MOST_TEMPERATURE = 2.0
MOST_PENALTY = 2.0
LARGEST_SEED = 2**32 - 1

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class TextAsked:
    """A text to go on with."""

    prompt: str
    is_chat: bool
    max_tokens: int
    sampling: Sampling


@dataclass(frozen=True)
class QuestionAsked:
    """A question, and the passage that has its answer."""

    passage: str
    question: str


def text_asked(body: object) -> TextAsked:
    """Read a request for text.

    Raises
    ------
    InputError
        A field is missing, unknown, of another kind or out of bounds.
    """
    names = ("prompt", "chat", "max_tokens", "temperature", "top_p", "repetition_penalty", "seed")
    fields = _fields(body, names)
    return TextAsked(
        _text(fields, "prompt", MOST_CHARACTERS),
        _switch(fields, "chat"),
        int(_number(fields, "max_tokens", 128, 1, MOST_NEW_TOKENS, whole=True)),
        Sampling(
            temperature=_number(fields, "temperature", 0, 0, MOST_TEMPERATURE),
            top_p=_number(fields, "top_p", 1, 0.01, 1),
            repetition_penalty=_number(fields, "repetition_penalty", 1, 1, MOST_PENALTY),
            seed=int(_number(fields, "seed", 0, 0, LARGEST_SEED, whole=True)),
        ),
    )


def question_asked(body: object) -> QuestionAsked:
    """Read a question; errors as in :func:`text_asked`."""
    fields = _fields(body, ("passage", "question"))
    return QuestionAsked(
        _text(fields, "passage", MOST_CHARACTERS),
        _text(fields, "question", MOST_QUESTION_CHARACTERS),
    )


def job_asked(body: object) -> str:
    """Read which job is meant; errors as in :func:`text_asked`."""
    return _text(_fields(body, ("job",)), "job", MOST_QUESTION_CHARACTERS)


def _fields(body: object, names: tuple[str, ...]) -> Fields:
    if not isinstance(body, dict):
        raise _wrong("request", "an object of JSON", type(body).__name__)
    unknown = sorted(str(name)[:40] for name in body.keys() - set(names))
    if unknown:
        raise _wrong("request", f"no fields but {', '.join(names)}", ", ".join(unknown))
    return body


def _text(fields: Fields, name: str, most: int) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise _wrong(name, "text", type(value).__name__)
    if not value.strip():
        raise _wrong(name, "some text", "none", "Write some.")
    if len(value) > most:
        raise _wrong(name, f"at most {most} characters", str(len(value)), "Shorten it.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _wrong(name, "whole characters", "half of a pair", "Type it again.") from error
    return value


def _switch(fields: Fields, name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise _wrong(name, "true or false", type(value).__name__)
    return value


def _number(
    fields: Fields, name: str, default: float, least: float, most: float, *, whole: bool = False
) -> float:
    value = fields.get(name, default)
    kind = "a whole number" if whole else "a number"
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or (isinstance(value, float) and not math.isfinite(value)):
        raise _wrong(name, kind, str(value)[:40])
    if whole and value != int(value):
        raise _wrong(name, kind, str(value)[:40])
    if not least <= value <= most:
        raise _wrong(name, f"{kind} from {least:.10g} to {most:.10g}", str(value)[:40])
    return float(value)


def _wrong(name: str, expected: str, found: str, next_step: str = "Change it.") -> InputError:
    return InputError(name, expected=expected, found=found, next_step=next_step)
