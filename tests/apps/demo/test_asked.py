"""What may be asked for: kinds and bounds, each with a message that names the field."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_fusionx.apps.demo.asked import (
    MOST_CHARACTERS,
    MOST_NEW_TOKENS,
    job_asked,
    question_asked,
    text_asked,
)
from tvm_fusionx.errors import InputError


def test_what_is_not_said_is_as_on_the_command_line() -> None:
    asked = text_asked({"prompt": " a "})
    assert (asked.prompt, asked.is_chat, asked.max_tokens) == (" a ", False, 128)
    assert asked.sampling.temperature == 0
    assert asked.sampling.top_p == 1


def test_what_is_said_counts() -> None:
    body = {"prompt": "a", "chat": True, "max_tokens": 5, "temperature": 0.5, "seed": 7}
    asked = text_asked(body)
    assert (asked.is_chat, asked.max_tokens) == (True, 5)
    assert (asked.sampling.temperature, asked.sampling.seed) == (0.5, 7)
    question = question_asked({"passage": "p", "question": "q"})
    assert (question.passage, question.question) == ("p", "q")
    assert job_asked({"job": "j"}) == "j"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompt": ""}, "prompt: expected some text; found none"),
        ({"prompt": " \n"}, "prompt: expected some text"),
        ({"prompt": 3}, "prompt: expected text; found int"),
        ({"prompt": None}, "prompt: expected text; found NoneType"),
        ({"prompt": "\ud800"}, "prompt: expected whole characters"),
        ({"prompt": "a" * (MOST_CHARACTERS + 1)}, "at most 8000 characters; found 8001"),
        ({"chat": 1}, "chat: expected true or false; found int"),
        ({"max_tokens": 0}, "max_tokens: expected a whole number from 1 to 512; found 0"),
        ({"max_tokens": MOST_NEW_TOKENS + 1}, "found 513"),
        ({"max_tokens": 1.5}, "max_tokens: expected a whole number; found 1.5"),
        ({"max_tokens": "9"}, "max_tokens: expected a whole number; found 9"),
        ({"max_tokens": True}, "max_tokens: expected a whole number; found True"),
        ({"max_tokens": float("nan")}, "expected a whole number; found nan"),
        ({"max_tokens": 10**400}, "max_tokens"),
        ({"temperature": float("inf")}, "temperature: expected a number; found inf"),
        ({"temperature": -1}, "temperature: expected a number from 0 to 2; found -1"),
        ({"top_p": 0}, "top_p: expected a number from 0.01 to 1"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"seed": 2**32}, "seed"),
        ({"colour": 1}, "no fields but prompt, .*; found colour"),
    ],
)
def test_what_is_out_of_bounds_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        text_asked({"prompt": "a", **fields})


@pytest.mark.parametrize("body", [None, [], "a", 3])
def test_other_json_is_refused(body: object) -> None:
    with pytest.raises(InputError, match="expected an object of JSON"):
        text_asked(body)
    with pytest.raises(InputError, match="expected an object of JSON"):
        job_asked(body)


def test_a_long_question_is_refused() -> None:
    with pytest.raises(InputError, match="question: expected at most 500 characters; found 501"):
        question_asked({"passage": "p", "question": "q" * 501})
